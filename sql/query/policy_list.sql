-- Every policy version, without what stands in the place of one (reconcile.NoPolicyID).
SELECT boundary_id, spec, spec_mac, state FROM policy_versions WHERE policy_id <> '(none)' ORDER BY policy_id, version

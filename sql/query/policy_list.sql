-- Every policy version.
SELECT boundary_id, spec, spec_mac, state FROM policy_versions ORDER BY policy_id, version

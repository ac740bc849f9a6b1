-- One policy version; the caller may add a row lock.
SELECT boundary_id, spec, spec_mac, state FROM policy_versions WHERE policy_id = $1 AND version = $2

-- Stores a policy version, unless it is there.
INSERT INTO policy_versions (policy_id, version, boundary_id, spec, spec_mac, state, authority, on_due, created_us)
VALUES ($1, $2, $3, $4, $5, 'draft', $6, $7, $8)
ON CONFLICT (policy_id, version) DO NOTHING

-- Begins to plan a job. No row when the policy version is planning another.
INSERT INTO jobs (job_id, policy_id, policy_version, boundary_id, state, item_count, content_bytes, created_us)
VALUES ($1, $2, $3, $4, 'planning', 0, 0, $5)
ON CONFLICT DO NOTHING

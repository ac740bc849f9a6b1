-- A job that the provider holds and the ledger did not know.
INSERT INTO jobs (job_id, policy_id, policy_version, boundary_id, state, item_count, content_bytes, account, provider_job_id, provider_status,
  created_us, submitted_us, next_poll_us, expires_us)
VALUES ($1, $2, $3, $4, 'submitted', $5, $6, $7, $8, $9, $10, $11, $10, $12)

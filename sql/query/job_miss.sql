-- Counts an answer that the provider does not know the job.
UPDATE jobs SET poll_misses = poll_misses + 1, first_miss_us = COALESCE(first_miss_us, $1), next_poll_us = $2
WHERE job_id = $3 AND state = 'submitted'
RETURNING job_id, policy_id, policy_version, boundary_id, state, item_count, content_bytes, account, provider_job_id, provider_status,
  phase, submitted_us, expires_us, ended_us, poll_misses, first_miss_us, incomplete_us

-- One job; the caller may add a row lock.
SELECT job_id, policy_id, policy_version, boundary_id, state, item_count, content_bytes, account, provider_job_id, provider_status,
  phase, submitted_us, expires_us, ended_us, poll_misses, first_miss_us, incomplete_us
FROM jobs WHERE job_id = $1

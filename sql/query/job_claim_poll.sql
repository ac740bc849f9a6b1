-- Claims a job that is due, by moving its next poll forward. The guard stands
-- here again: another process may have claimed it meanwhile. Until there is an
-- answer, no event pulls it.
UPDATE jobs SET next_poll_us = $1, pull_from_us = NULL
WHERE job_id = $2 AND state = 'submitted' AND called = 0 AND (next_poll_us <= $3 OR next_poll_us > $4)
RETURNING job_id, policy_id, policy_version, boundary_id, state, item_count, content_bytes, account, provider_job_id, provider_status,
  phase, submitted_us, expires_us, ended_us, poll_misses, first_miss_us, incomplete_us

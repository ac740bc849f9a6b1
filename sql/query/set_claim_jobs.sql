-- Takes ended jobs that are due and puts their next consumption off. The guard
-- stands on the UPDATE itself, so that of two takers one finds no row.
UPDATE jobs SET next_consume_us = $1
WHERE state = 'ended' AND next_consume_us <= $2
  AND job_id IN (SELECT job_id FROM jobs WHERE state = 'ended' AND next_consume_us <= $2 ORDER BY next_consume_us, job_id LIMIT $3)
RETURNING job_id, policy_id, policy_version, boundary_id, state, item_count, content_bytes, account, provider_job_id, provider_status,
  phase, submitted_us, expires_us, ended_us, poll_misses, first_miss_us, incomplete_us

-- Notes what was told about a job that goes on. Any answer ends a row of misses.
UPDATE jobs SET provider_status = $1, provider_total = $2, provider_completed = $3, provider_failed = $4,
  next_poll_us = $5, expires_us = COALESCE($6, expires_us), poll_misses = 0, first_miss_us = NULL,
  incomplete_us = CASE WHEN $7 = 1 THEN COALESCE(incomplete_us, $8) END, pull_from_us = $9
WHERE job_id = $10 AND state = 'submitted'

-- The provider is done with a job; its results may be read at once. Since when
-- its files were missing stays: the same wait is not granted twice.
UPDATE jobs SET state = 'ended', phase = $1, provider_status = $2, provider_total = $3, provider_completed = $4, provider_failed = $5,
  ended_us = $6, next_consume_us = $6, next_poll_us = NULL, poll_misses = 0, first_miss_us = NULL
WHERE job_id = $7 AND state = 'submitted'

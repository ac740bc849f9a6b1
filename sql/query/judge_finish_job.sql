-- A job is over once each member has its outcome.
UPDATE jobs SET state = 'consumed', consumed_us = $1, next_consume_us = NULL
WHERE job_id = $2 AND state = 'ended'
  AND NOT EXISTS (SELECT 1 FROM items WHERE items.job_id = jobs.job_id AND items.outcome IS NULL)

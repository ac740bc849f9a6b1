-- Pulls the next poll of a submitted job forward to $1, or to the earliest instant
-- that its last answer permits. It never moves a poll back, and does nothing where
-- pull_from_us is NULL.
UPDATE jobs SET next_poll_us = CASE WHEN pull_from_us > $1 THEN pull_from_us ELSE $1 END
WHERE account = $2 AND provider_job_id = $3 AND state = 'submitted' AND next_poll_us > $1 AND next_poll_us > pull_from_us
RETURNING job_id

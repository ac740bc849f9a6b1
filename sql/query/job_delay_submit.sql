-- Puts a job off that could not be sent, for another reason than a limit.
UPDATE jobs SET next_submit_us = $1, waits_for = NULL, waits_since_us = NULL WHERE job_id = $2 AND state = 'ready'

-- Puts a job off that could not be sent.
UPDATE jobs SET next_submit_us = $1 WHERE job_id = $2 AND state = 'ready'

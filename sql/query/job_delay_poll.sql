-- Puts a job off that could not be asked about.
UPDATE jobs SET next_poll_us = $1 WHERE job_id = $2 AND state = 'submitted'

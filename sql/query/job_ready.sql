-- Ends the planning of a job; it may be sent at once.
UPDATE jobs SET state = 'ready', next_submit_us = $1 WHERE job_id = $2 AND state = 'planning'

-- Gives a job up that nobody wants any more. It was not sent.
UPDATE jobs SET state = 'abandoned', next_submit_us = NULL WHERE job_id = $1 AND state = 'ready'

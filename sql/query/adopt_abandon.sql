-- Gives an unsent job up, whose members another job has.
UPDATE jobs SET state = 'abandoned', next_submit_us = NULL WHERE job_id = $1 AND state IN ('planning', 'ready')

-- The open members of an unsent job that is given up.
UPDATE items SET outcome = 'not_sent', line = NULL, decided_us = $1 WHERE job_id = $2 AND outcome IS NULL

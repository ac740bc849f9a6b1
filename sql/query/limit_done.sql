-- A job that is about to be sent waits for no limit any more.
UPDATE jobs SET waits_for = NULL, waits_since_us = NULL WHERE job_id = $1 AND state = 'ready' AND waits_for IS NOT NULL

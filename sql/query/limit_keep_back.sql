-- Puts a job off that waits for a limit of its account.
UPDATE jobs SET next_submit_us = $1, waits_for = $2, waits_since_us = COALESCE(waits_since_us, $3) WHERE job_id = $4 AND state = 'ready'

-- Puts an ended job off whose results are to be read again, and notes since when.
UPDATE jobs SET next_consume_us = $1, incomplete_us = COALESCE(incomplete_us, $2) WHERE job_id = $3 AND state = 'ended'

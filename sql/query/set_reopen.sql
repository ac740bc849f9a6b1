-- Whole sets of a job are to be read again.
UPDATE result_sets SET state = 'staging', line_count = NULL, byte_count = NULL, mac = NULL, staged_us = NULL
WHERE job_id = $1 AND state = 'whole'

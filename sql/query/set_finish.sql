-- A result set is read from its first byte to its last.
UPDATE result_sets SET state = 'whole', line_count = $1, byte_count = $2, mac = $3, staged_us = $4
WHERE job_id = $5 AND channel = $6 AND state = 'staging'

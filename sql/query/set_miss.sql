-- The provider does not know a set's file; the first time is kept.
UPDATE result_sets SET missing_us = COALESCE(missing_us, $1), misses = misses + 1
WHERE job_id = $2 AND channel = $3 AND state = 'staging'
RETURNING missing_us, misses

-- The provider has a set's file after all: earlier misses prove nothing.
UPDATE result_sets SET missing_us = NULL, misses = 0
WHERE job_id = $1 AND channel = $2 AND missing_us IS NOT NULL

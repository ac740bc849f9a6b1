-- How many sets of a job are still to be read.
SELECT COUNT(*) FROM result_sets WHERE job_id = $1 AND state = 'staging'

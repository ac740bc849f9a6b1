-- The result sets of a job.
SELECT job_id, channel, state, file_id FROM result_sets WHERE job_id = $1 ORDER BY channel

-- The result sets of a job.
SELECT channel, state, file_id, line_count, byte_count FROM result_sets WHERE job_id = $1 ORDER BY channel

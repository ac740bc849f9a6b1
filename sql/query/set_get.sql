-- One result set; the caller may add a row lock.
SELECT job_id, channel, state, file_id, line_count, mac FROM result_sets WHERE job_id = $1 AND channel = $2

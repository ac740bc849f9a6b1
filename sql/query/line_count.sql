-- How many lines of a set are staged.
SELECT COUNT(*) FROM result_lines WHERE job_id = $1 AND channel = $2

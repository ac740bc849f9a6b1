-- Drops what was staged of a job.
DELETE FROM result_lines WHERE job_id = $1

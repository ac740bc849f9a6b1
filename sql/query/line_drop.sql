-- Drops what was staged of a set.
DELETE FROM result_lines WHERE job_id = $1 AND channel = $2

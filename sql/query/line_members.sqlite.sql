-- The works of named lines of a job's request file.
SELECT i.line, i.work_id
FROM json_each($2) AS wanted
CROSS JOIN items i ON i.job_id = $1 AND i.line = wanted.value

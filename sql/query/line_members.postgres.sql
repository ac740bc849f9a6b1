-- The works of named lines of a job's request file.
SELECT i.line, i.work_id
FROM json_array_elements_text(CAST($2 AS JSON)) AS wanted (line)
JOIN items i ON i.job_id = $1 AND i.line = CAST(wanted.line AS BIGINT)

-- How many members a job has that are to be sent, and how many of them have no line yet.
SELECT COUNT(*) AS open, COUNT(*) - COUNT(line) AS unnumbered FROM items WHERE job_id = $1 AND outcome IS NULL

-- How many attempts a job has had, and how many of them have no outcome yet.
SELECT COUNT(*) AS attempts, COUNT(*) - COUNT(outcome) AS open FROM submissions WHERE job_id = $1

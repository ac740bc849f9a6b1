-- The members of a job by outcome; '' counts those without one.
SELECT COALESCE(outcome, '') AS name, COUNT(*) AS n FROM items WHERE job_id = $1 GROUP BY COALESCE(outcome, '')

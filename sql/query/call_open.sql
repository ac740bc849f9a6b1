-- How many calls of a job have no answer, and when the first of them is due.
SELECT COUNT(*) AS open, MIN(next_call_us) AS next_us FROM calls WHERE job_id = $1 AND state <> 'done'

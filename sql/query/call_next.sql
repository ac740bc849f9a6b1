-- When the first call of a job that has no answer is due; NULL when each has one.
SELECT MIN(next_call_us) FROM calls WHERE job_id = $1 AND state <> 'done'

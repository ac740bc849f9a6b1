-- Makes the first call of each member of a job that is to be sent.
INSERT INTO calls (job_id, work_id, segment, line, state, next_call_us)
SELECT job_id, work_id, 1, line, 'due', CAST($1 AS BIGINT) FROM items
WHERE job_id = $2 AND outcome IS NULL AND line IS NOT NULL

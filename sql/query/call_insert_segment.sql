-- Makes the call of another segment of a text, beside that of its first one.
INSERT INTO calls (job_id, work_id, segment, segments, line, state, next_call_us)
SELECT job_id, work_id, CAST($1 AS BIGINT), segments, line, 'due', CAST($2 AS BIGINT) FROM calls
WHERE job_id = $3 AND work_id = $4 AND segment = 1
ON CONFLICT (job_id, work_id, segment) DO NOTHING

-- Notes in the records' own transaction that these works were applied.
INSERT INTO processed_markers (work_id, decision, fence, processed_us)
SELECT c.work_id, c.decision, CAST($1 AS BIGINT), CAST($2 AS BIGINT) FROM apply_works c
WHERE true
ON CONFLICT (work_id) DO NOTHING

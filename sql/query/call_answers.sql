-- The answers about the members of a job that have the next $3 lines behind a
-- line, in their order. A member that is not sent has none.
SELECT i.work_id, i.line, c.segment, COALESCE(c.segments, 0) AS segments, COALESCE(c.outcome, '') AS outcome, c.code, c.model, c.encrypted, c.key_id,
  c.input_tokens, c.output_tokens
FROM items i
JOIN calls c ON c.job_id = i.job_id AND c.work_id = i.work_id
WHERE i.job_id = $1 AND i.line > $2 AND i.line <= $2 + $3
ORDER BY i.line, c.segment

-- The answers about the next members of a job behind a line, in their order.
SELECT i.work_id, i.line, c.segment, COALESCE(c.segments, 0) AS segments, COALESCE(c.outcome, '') AS outcome, c.code, c.model, c.encrypted, c.key_id,
  c.input_tokens, c.output_tokens
FROM (SELECT work_id, line FROM items WHERE job_id = $1 AND outcome IS NULL AND line > $2 ORDER BY line LIMIT $3) AS i
JOIN calls c ON c.job_id = $1 AND c.work_id = i.work_id
ORDER BY i.line, c.segment

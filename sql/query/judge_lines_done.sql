-- Says what became of the lines of a chunk. An accepted answer has moved to its
-- artifact.
-- The IN tells SQLite to begin with the chunk.
UPDATE result_lines SET
  disposition = CASE WHEN result_lines.channel = r.channel AND result_lines.line = r.line THEN 'accepted' ELSE r.rest END,
  encrypted = CASE WHEN result_lines.channel = r.channel AND result_lines.line = r.line THEN NULL ELSE encrypted END,
  key_id = CASE WHEN result_lines.channel = r.channel AND result_lines.line = r.line THEN NULL ELSE key_id END
FROM rulings r
WHERE result_lines.job_id = $1 AND result_lines.work_id = r.work_id AND result_lines.disposition = 'staged'
  AND result_lines.work_id IN (SELECT work_id FROM rulings)

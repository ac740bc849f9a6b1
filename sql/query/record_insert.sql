-- Makes the review records of a chunk, from artifacts or reasons. CROSS JOIN
-- tells SQLite to begin with the chunk.
INSERT INTO review_records (work_id, report_id, revision, kind, reason, label, evidence, artifact_id, authoritative, human_state, created_us)
SELECT w.work_id, w.report_id, w.revision, CASE WHEN w.reason IS NULL THEN 'classified' ELSE 'unclassified' END, w.reason,
  a.label, a.evidence, a.work_id, CASE WHEN c.decision = 'authoritative' THEN 1 ELSE 0 END, 'queued', CAST($1 AS BIGINT)
FROM apply_works c
CROSS JOIN works w
LEFT JOIN artifacts a ON a.work_id = w.work_id AND w.reason IS NULL
WHERE w.work_id = c.work_id AND w.stage = 'extracted'
ON CONFLICT (work_id) DO NOTHING

-- Records that stand although they were applied as history, and reports for
-- which nothing stands although a record was applied to stand. Parameter: $1
-- how many to list.
WITH offenders AS (
  SELECT DISTINCT 'work:' || v.work_id AS subject,
    'report ' || v.report_id || ', revision ' || CAST(v.revision AS TEXT) || ', applied as ' || m.decision
      || CASE v.authoritative WHEN 1 THEN ', and stands' ELSE ', and nothing stands' END AS detail
  FROM processed_markers m
  JOIN review_records v ON v.work_id = m.work_id
  LEFT JOIN review_records s ON s.report_id = v.report_id AND s.authoritative = 1
  WHERE (m.decision = 'history' AND v.authoritative = 1) OR (m.decision = 'authoritative' AND s.work_id IS NULL)
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

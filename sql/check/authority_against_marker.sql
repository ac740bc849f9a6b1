-- Records that stand although they were applied as history, and reports for
-- which nothing stands although a record was applied to stand. Most records were
-- applied to stand and do: only the others are looked up. Parameter: $1 how many
-- to list.
WITH against AS (
  SELECT v.work_id, v.report_id, v.revision, m.decision || ', and stands' AS what
  FROM processed_markers m CROSS JOIN review_records v
  WHERE m.decision = 'history' AND v.work_id = m.work_id AND v.authoritative = 1
  UNION ALL
  SELECT v.work_id, v.report_id, v.revision, m.decision || ', and nothing stands'
  FROM review_records v CROSS JOIN processed_markers m
  WHERE v.authoritative = 0 AND m.work_id = v.work_id AND m.decision = 'authoritative'
    AND NOT EXISTS (SELECT 1 FROM review_records s WHERE s.report_id = v.report_id AND s.authoritative = 1)
), offenders AS (
  SELECT 'work:' || work_id AS subject,
    'report ' || report_id || ', revision ' || CAST(revision AS TEXT) || ', applied as ' || what AS detail
  FROM against
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

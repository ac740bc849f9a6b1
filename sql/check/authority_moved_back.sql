-- Reports for which an older revision stands although a newer one was applied
-- to stand, or is the current one and nobody has decided about the older.
-- Parameter: $1 how many to list.
WITH offenders AS (
  SELECT 'report:' || s.report_id AS subject,
    'revision ' || CAST(MIN(s.revision) AS TEXT) || ' stands, revision ' || CAST(MAX(n.revision) AS TEXT) || ' is applied' AS detail
  FROM review_records n
  JOIN review_records s ON s.report_id = n.report_id AND s.authoritative = 1 AND s.revision < n.revision
  JOIN processed_markers m ON m.work_id = n.work_id
  JOIN works w ON w.work_id = n.work_id
  JOIN reports r ON r.report_id = n.report_id
  WHERE n.authoritative = 0
    AND (m.decision = 'authoritative' OR (n.revision = r.current_revision AND w.disposition = 'live' AND s.human_state <> 'decided'))
  GROUP BY s.report_id
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

-- Reports whose current revision has neither a live work nor a hold: nothing
-- would ever come of them. Parameter: $1 how many to list.
WITH offenders AS (
  SELECT 'report:' || r.report_id AS subject,
    r.tenant_id || '/' || r.source_system || ', revision ' || CAST(r.current_revision AS TEXT) || ': neither work nor hold' AS detail
  FROM reports r
  WHERE NOT EXISTS (SELECT 1 FROM works w WHERE w.report_id = r.report_id AND w.revision = r.current_revision AND w.disposition = 'live')
    AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.report_id = r.report_id AND h.revision = r.current_revision)
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

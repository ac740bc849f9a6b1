-- Sources whose reports are held because they have no approved policy. The
-- joins start from the holds, which are few. Parameter: $1 how many to list.
WITH offenders AS (
  SELECT 'source:' || r.tenant_id || '/' || r.source_system AS subject, CAST(COUNT(*) AS TEXT) || ' reports held' AS detail
  FROM holds h CROSS JOIN reports r
  WHERE r.report_id = h.report_id AND r.current_revision = h.revision
  GROUP BY r.tenant_id, r.source_system
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

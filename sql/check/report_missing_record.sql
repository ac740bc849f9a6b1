-- Reports whose current revision was due before $2 and has no record, or that
-- have no authoritative record at all. Parameters: $1 how many to list, $2 the
-- latest due time, in microseconds.
WITH offenders AS (
  SELECT DISTINCT 'report:' || r.report_id AS subject,
    r.tenant_id || '/' || r.source_system || ', revision ' || CAST(w.revision AS TEXT) || ', work ' || w.work_id || ', stage ' || w.stage || ': '
      || CASE WHEN own.work_id IS NULL THEN 'past its due time without a record' ELSE 'no record stands for the report' END AS detail
  FROM works w
  JOIN reports r ON r.report_id = w.report_id AND r.current_revision = w.revision
  LEFT JOIN review_records own ON own.work_id = w.work_id
  LEFT JOIN review_records standing ON standing.report_id = w.report_id AND standing.authoritative = 1
  WHERE w.disposition = 'live' AND w.due_us <= $2 AND (own.work_id IS NULL OR standing.work_id IS NULL)
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

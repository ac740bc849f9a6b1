-- Reports whose current revision was due before $2 and has no record, or that
-- have no authoritative record at all. Ids alone are compared first, index
-- against index: works without a record, and works of reports for which nothing
-- stands. Parameters: $1 how many to list, $2 the latest due time, in
-- microseconds.
WITH unrecorded AS MATERIALIZED (
  SELECT w.work_id FROM works w
  WHERE NOT EXISTS (SELECT 1 FROM review_records v WHERE v.work_id = w.work_id)
), bare AS MATERIALIZED (
  SELECT r.report_id FROM reports r
  WHERE NOT EXISTS (SELECT 1 FROM review_records v WHERE v.report_id = r.report_id AND v.authoritative = 1)
), suspects AS (
  SELECT work_id FROM unrecorded
  UNION
  SELECT w.work_id FROM bare b CROSS JOIN works w WHERE w.report_id = b.report_id AND w.disposition = 'live'
), offenders AS (
  SELECT DISTINCT 'report:' || r.report_id AS subject,
    r.tenant_id || '/' || r.source_system || ', revision ' || CAST(w.revision AS TEXT) || ', work ' || w.work_id || ', stage ' || w.stage || ': '
      || CASE WHEN EXISTS (SELECT 1 FROM review_records own WHERE own.work_id = w.work_id) THEN 'no record stands for the report'
        ELSE 'past its due time without a record' END AS detail
  FROM suspects s CROSS JOIN works w CROSS JOIN reports r
  WHERE w.work_id = s.work_id AND w.disposition = 'live' AND w.due_us <= $2
    AND r.report_id = w.report_id AND r.current_revision = w.revision
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

-- How many reports were accepted, and where those are for which no record
-- stands. Ids alone are compared first, index against index.
WITH bare AS MATERIALIZED (
  SELECT r.report_id FROM reports r
  WHERE NOT EXISTS (SELECT 1 FROM review_records v WHERE v.report_id = r.report_id AND v.authoritative = 1)
)
SELECT (SELECT COUNT(*) FROM reports) AS accepted,
  COUNT(*) AS without_record,
  COUNT(h.report_id) AS held,
  COUNT(CASE WHEN h.report_id IS NULL THEN w.work_id END) AS in_flight
FROM bare b CROSS JOIN reports r
LEFT JOIN holds h ON h.report_id = r.report_id AND h.revision = r.current_revision
LEFT JOIN works w ON w.report_id = r.report_id AND w.revision = r.current_revision AND w.disposition = 'live'
WHERE r.report_id = b.report_id

-- How many reports were accepted, and where those are for which no record stands.
SELECT (SELECT COUNT(*) FROM reports) AS accepted,
  COUNT(*) AS without_record,
  COUNT(h.report_id) AS held,
  COUNT(CASE WHEN h.report_id IS NULL THEN w.work_id END) AS in_flight
FROM reports r
LEFT JOIN review_records v ON v.report_id = r.report_id AND v.authoritative = 1
LEFT JOIN holds h ON h.report_id = r.report_id AND h.revision = r.current_revision
LEFT JOIN works w ON w.report_id = r.report_id AND w.revision = r.current_revision AND w.disposition = 'live'
WHERE v.work_id IS NULL

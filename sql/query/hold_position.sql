-- Where a report stands, or stood, among the holds.
SELECT v.accepted_us FROM reports r
JOIN revisions v ON v.report_id = r.report_id AND v.revision = r.current_revision
WHERE r.report_id = $1

-- The works and holds of revisions that were delivered again, older works first.
SELECT s.report_id, w.work_id, w.disposition, h.held_us
FROM intake_settled s
LEFT JOIN works w ON w.report_id = s.report_id AND w.revision = s.revision
LEFT JOIN holds h ON h.report_id = s.report_id AND h.revision = s.revision
WHERE s.verdict = 'unchanged'
ORDER BY w.created_us, w.work_id

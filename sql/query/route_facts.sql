-- Where the current revisions of the locked reports are. CROSS JOIN tells SQLite
-- to begin with the chunk.
SELECT r.report_id, r.current_revision, w.work_id, w.stage, w.reason, h.held_us
FROM route_reports c
CROSS JOIN reports r
LEFT JOIN works w ON w.report_id = r.report_id AND w.revision = r.current_revision AND w.disposition = 'live'
LEFT JOIN holds h ON h.report_id = r.report_id AND h.revision = r.current_revision
WHERE r.report_id = c.report_id

-- What was claimed, with the text that it is about. CROSS JOIN has SQLite begin
-- with the few.
SELECT c.work_id, c.segment, COALESCE(c.segments, 0) AS segments, c.line, c.faults, w.report_id, v.content_mac, t.encrypted, t.key_id
FROM claiming k CROSS JOIN calls c
JOIN works w ON w.work_id = c.work_id
JOIN revisions v ON v.report_id = w.report_id AND v.revision = w.revision
LEFT JOIN texts t ON t.report_id = w.report_id AND t.revision = w.revision
WHERE c.job_id = $1 AND c.work_id = k.work_id AND c.segment = k.segment
ORDER BY c.line, c.segment

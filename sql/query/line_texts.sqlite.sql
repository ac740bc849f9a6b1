-- The encrypted input of those works of a list that are members of a job. CROSS
-- JOIN keeps the order: SQLite cannot know that the list is the smaller side.
SELECT i.work_id, COALESCE(i.line, 0) AS line, w.report_id, r.content_mac, t.encrypted, t.key_id
FROM json_each($2) AS wanted
CROSS JOIN items i ON i.job_id = $1 AND i.work_id = wanted.value AND (i.outcome IS NULL OR i.outcome <> 'not_sent')
JOIN works w ON w.work_id = i.work_id
JOIN revisions r ON r.report_id = w.report_id AND r.revision = w.revision
LEFT JOIN texts t ON t.report_id = w.report_id AND t.revision = w.revision

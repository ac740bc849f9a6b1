-- Findings about a report and its works, newest first.
SELECT finding_id, name, kind, subject, severity, detail, opened_us, last_seen_us, seen, resolved_us, resolved_by, resolution
FROM findings
WHERE subject = 'report:' || $1 OR subject IN (SELECT 'work:' || w.work_id FROM works w WHERE w.report_id = $1)
ORDER BY opened_us DESC, finding_id DESC

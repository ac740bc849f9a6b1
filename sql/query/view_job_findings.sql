-- Findings about a job and its submissions, newest first.
SELECT finding_id, name, kind, subject, severity, detail, opened_us, last_seen_us, seen, resolved_us, resolved_by, resolution
FROM findings
WHERE subject = 'job:' || $1 OR subject IN (SELECT 'submission:' || s.submission_id FROM submissions s WHERE s.job_id = $1)
ORDER BY opened_us DESC, finding_id DESC

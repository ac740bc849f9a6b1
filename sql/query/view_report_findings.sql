-- Findings about a report and its works, newest first; while its current work is
-- under way also the open ones about its policy and its job.
WITH under_way AS (
  SELECT w.work_id, w.policy_id, w.policy_version
  FROM works w JOIN reports r ON r.report_id = w.report_id AND r.current_revision = w.revision
  WHERE w.report_id = $1 AND w.disposition = 'live' AND w.stage IN ('pending', 'collected')
)
SELECT finding_id, name, kind, subject, severity, detail, opened_us, last_seen_us, seen, resolved_us, resolved_by, resolution
FROM findings
WHERE subject = 'report:' || $1 OR subject IN (SELECT 'work:' || w.work_id FROM works w WHERE w.report_id = $1)
  OR (resolved_us IS NULL AND (
    subject IN (SELECT 'policy:' || u.policy_id || '/' || CAST(u.policy_version AS TEXT) FROM under_way u)
    OR subject IN (SELECT 'job:' || i.job_id FROM under_way u JOIN items i ON i.work_id = u.work_id WHERE i.outcome IS NULL)))
ORDER BY opened_us DESC, finding_id DESC

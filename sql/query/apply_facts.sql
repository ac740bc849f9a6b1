-- The extracted works of the locked reports, lowest revision first, with what
-- stands for each report. CROSS JOIN tells SQLite to begin with the chunk.
SELECT w.work_id, w.report_id, w.revision, w.disposition, p.authority, r.current_revision,
  s.revision AS standing_revision, s.human_state AS standing_human_state, sw.disposition AS standing_disposition
FROM apply_reports c
CROSS JOIN works w
CROSS JOIN reports r
JOIN policy_versions p ON p.policy_id = w.policy_id AND p.version = w.policy_version
LEFT JOIN artifacts a ON a.work_id = w.work_id
LEFT JOIN review_records s ON s.report_id = w.report_id AND s.authoritative = 1
LEFT JOIN works sw ON sw.work_id = s.work_id
WHERE w.report_id = c.report_id AND r.report_id = c.report_id AND w.stage = 'extracted' AND (w.reason IS NOT NULL OR a.work_id IS NOT NULL)
ORDER BY w.report_id, w.revision, w.created_us, w.work_id

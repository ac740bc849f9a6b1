-- The works of a report with their boundaries and records.
SELECT w.work_id, w.revision, w.policy_id, w.policy_version, p.state AS policy_state, b.account, b.host, b.region,
  w.disposition, w.stage, w.reason, w.eligible_us, w.due_us,
  v.kind, v.label, v.reason AS record_reason, v.authoritative, v.human_state, v.created_us AS record_us, a.model
FROM works w
JOIN policy_versions p ON p.policy_id = w.policy_id AND p.version = w.policy_version
JOIN boundaries b ON b.boundary_id = w.boundary_id
LEFT JOIN review_records v ON v.work_id = w.work_id
LEFT JOIN artifacts a ON a.work_id = v.artifact_id
WHERE w.report_id = $1 ORDER BY w.revision, w.created_us, w.work_id

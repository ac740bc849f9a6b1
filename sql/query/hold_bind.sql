-- Makes the works of current revisions that are still held.
INSERT INTO works (work_id, tenant_id, report_id, revision, policy_id, policy_version, boundary_id, disposition, stage, reason,
  urgent, content_bytes, created_us, eligible_us, due_us)
SELECT b.work_id, r.tenant_id, b.report_id, b.revision, b.policy_id, b.policy_version, b.boundary_id, 'live',
  CASE WHEN b.reason IS NULL THEN 'pending' ELSE 'extracted' END, b.reason,
  v.urgent, v.content_bytes, CAST($1 AS BIGINT), CAST($1 AS BIGINT), v.accepted_us + b.review_us
FROM intake_bindings b
JOIN holds h ON h.report_id = b.report_id AND h.revision = b.revision
JOIN revisions v ON v.report_id = b.report_id AND v.revision = b.revision
JOIN reports r ON r.report_id = b.report_id AND r.current_revision = b.revision

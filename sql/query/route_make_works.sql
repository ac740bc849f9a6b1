-- Makes the works of held revisions that go to a person, under a policy version
-- that is never approved.
INSERT INTO works (work_id, tenant_id, report_id, revision, policy_id, policy_version, boundary_id, disposition, stage, reason,
  urgent, content_bytes, created_us, eligible_us, due_us)
SELECT c.work_id, r.tenant_id, h.report_id, h.revision, $1, CAST($2 AS BIGINT), $3, 'live', 'extracted', 'routed',
  v.urgent, v.content_bytes, CAST($4 AS BIGINT), CAST($4 AS BIGINT), CAST($5 AS BIGINT)
FROM route_works c
JOIN holds h ON h.report_id = c.report_id AND h.revision = c.revision
JOIN revisions v ON v.report_id = c.report_id AND v.revision = c.revision
JOIN reports r ON r.report_id = c.report_id
WHERE c.made = 1

-- Makes the reports of a chunk that are not there yet, in the order in which
-- rows are locked. Another intake of the same report is waited for.
INSERT INTO reports (report_id, tenant_id, source_system, external_id, current_revision, created_us)
SELECT report_id, tenant_id, source_system, external_id, revision, CAST($1 AS BIGINT)
FROM intake_deliveries WHERE true
ORDER BY report_id
ON CONFLICT DO NOTHING
RETURNING report_id

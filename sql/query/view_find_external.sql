-- Reports by the id that their source gave them.
SELECT report_id FROM reports WHERE external_id = $1 ORDER BY tenant_id, source_system LIMIT $2

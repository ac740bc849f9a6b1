-- One report.
SELECT report_id, tenant_id, source_system, external_id, current_revision FROM reports WHERE report_id = $1

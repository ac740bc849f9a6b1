-- Makes the accepted edits the current revisions.
UPDATE reports
SET current_revision = (SELECT s.revision FROM intake_settled s WHERE s.report_id = reports.report_id)
WHERE report_id IN (SELECT report_id FROM intake_settled WHERE verdict = 'revised')

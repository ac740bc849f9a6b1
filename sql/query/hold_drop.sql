-- Drops the holds of older revisions than the accepted edits: they are history.
DELETE FROM holds WHERE report_id IN (SELECT report_id FROM intake_settled WHERE verdict = 'revised')

-- The reports of a chunk, in the order in which rows are locked; the caller
-- adds the row lock.
SELECT report_id, current_revision FROM reports
WHERE report_id IN (SELECT report_id FROM intake_deliveries)
ORDER BY report_id

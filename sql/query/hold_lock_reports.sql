-- The reports whose holds are to be bound, in the order in which rows are
-- locked; the caller adds the row lock.
SELECT report_id, current_revision FROM reports
WHERE report_id IN (SELECT report_id FROM intake_bindings)
ORDER BY report_id

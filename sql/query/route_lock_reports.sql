-- The reports that are to be routed, in the order in which rows are locked; the
-- caller adds the row lock.
SELECT report_id FROM reports WHERE report_id IN (SELECT report_id FROM route_reports) ORDER BY report_id

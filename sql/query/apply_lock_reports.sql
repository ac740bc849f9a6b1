-- The reports of a chunk, for a lock in order of their ids.
SELECT report_id FROM reports WHERE report_id IN (SELECT report_id FROM apply_reports) ORDER BY report_id

-- The live works of the reports that are to be routed, for a lock in order of their ids.
SELECT work_id FROM works
WHERE disposition = 'live' AND report_id IN (SELECT report_id FROM route_reports)
ORDER BY work_id

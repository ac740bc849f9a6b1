-- Reports that got an artifact after they were given to a person without one.
SELECT w.report_id FROM rulings r
JOIN works w ON w.work_id = r.work_id
WHERE r.outcome = 'succeeded' AND w.stage IN ('extracted', 'recorded')
ORDER BY w.report_id

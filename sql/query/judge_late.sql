-- Reports that got an artifact after they were given to a person without one.
SELECT w.report_id FROM rulings r
CROSS JOIN works w
WHERE w.work_id = r.work_id AND r.outcome = 'succeeded' AND w.stage IN ('extracted', 'recorded')
ORDER BY w.report_id

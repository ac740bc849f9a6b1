-- The works that accepted edits supersede, for a lock in order of their ids.
SELECT w.work_id FROM works w
WHERE w.disposition = 'live' AND w.report_id IN (SELECT s.report_id FROM intake_settled s WHERE s.verdict = 'revised')
ORDER BY w.work_id

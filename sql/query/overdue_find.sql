-- Works past their due time whose policy gives them to a person then, the most
-- overdue first.
SELECT w.work_id FROM works w
JOIN policy_versions p ON p.policy_id = w.policy_id AND p.version = w.policy_version
WHERE w.stage IN ('pending', 'collected') AND w.disposition = 'live' AND w.due_us <= $1 AND p.on_due = 'unclassified'
ORDER BY w.due_us, w.work_id LIMIT $2

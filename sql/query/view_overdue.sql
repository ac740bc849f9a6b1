-- How many works are past their due time and go to a person. Only works of the
-- policy versions that give them away count; few works are unfinished and due.
SELECT COUNT(*) FROM works w JOIN policy_versions p ON p.policy_id = w.policy_id AND p.version = w.policy_version
WHERE w.stage IN ('pending', 'collected') AND w.disposition = 'live' AND w.due_us <= $1 AND p.on_due = 'unclassified'

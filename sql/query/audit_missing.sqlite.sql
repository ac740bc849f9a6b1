-- Those tokens of a list that no committed transaction has.
SELECT wanted.value AS token
FROM json_each($1) AS wanted
WHERE NOT EXISTS (SELECT 1 FROM audit_events a WHERE a.op_id = wanted.value)

-- Those tokens of a list that no committed transaction has.
SELECT wanted.token
FROM json_array_elements_text(CAST($1 AS JSON)) AS wanted (token)
WHERE NOT EXISTS (SELECT 1 FROM audit_events a WHERE a.op_id = wanted.token)

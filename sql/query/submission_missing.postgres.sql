-- Those submissions of a list that the ledger does not have.
SELECT wanted.id
FROM json_array_elements_text(CAST($1 AS JSON)) AS wanted (id)
WHERE NOT EXISTS (SELECT 1 FROM submissions s WHERE s.submission_id = wanted.id)

-- Those submissions of a list that the ledger does not have.
SELECT wanted.value AS id
FROM json_each($1) AS wanted
WHERE NOT EXISTS (SELECT 1 FROM submissions s WHERE s.submission_id = wanted.value)

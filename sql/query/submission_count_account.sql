-- How many submissions to an account have no outcome.
SELECT COUNT(*) FROM submissions WHERE account = $1 AND outcome IS NULL

-- How many members a job has that are to be sent, and how many lines are wrong for
-- that: those that are missing, and those of members that have left.
SELECT COALESCE(SUM(CASE WHEN outcome IS NULL THEN 1 ELSE 0 END), 0) AS open,
  COALESCE(SUM(CASE WHEN (outcome IS NULL) <> (line IS NOT NULL) THEN 1 ELSE 0 END), 0) AS unnumbered
FROM items WHERE job_id = $1

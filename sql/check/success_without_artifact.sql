-- Members of a job that succeeded and left no artifact: an answer was paid for
-- and is lost. Parameter: $1 how many to list.
WITH offenders AS (
  SELECT 'work:' || i.work_id AS subject, 'succeeded in job ' || i.job_id || ', no artifact' AS detail
  FROM items i
  WHERE i.outcome = 'succeeded' AND NOT EXISTS (SELECT 1 FROM artifacts a WHERE a.work_id = i.work_id)
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

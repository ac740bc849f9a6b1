-- Works that are open members of more than one job. Parameter: $1 how many to list.
WITH offenders AS (
  SELECT 'work:' || work_id AS subject, 'open in ' || CAST(COUNT(*) AS TEXT) || ' jobs, ' || MIN(job_id) || ' and ' || MAX(job_id) AS detail
  FROM items WHERE outcome IS NULL
  GROUP BY work_id HAVING COUNT(*) > 1
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

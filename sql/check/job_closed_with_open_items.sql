-- Jobs that are over in the ledger while members wait for an outcome: no pass
-- would ever look at them again. Parameter: $1 how many to list.
WITH offenders AS (
  SELECT 'job:' || j.job_id AS subject, 'state ' || j.state || ', ' || CAST(COUNT(*) AS TEXT) || ' members without an outcome' AS detail
  FROM items i JOIN jobs j ON j.job_id = i.job_id
  WHERE i.outcome IS NULL AND j.state IN ('consumed', 'abandoned')
  GROUP BY j.job_id, j.state
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

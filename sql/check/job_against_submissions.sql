-- Jobs whose state says something else than their submissions: a job that the
-- provider has was accepted exactly once, any other one never. Parameter: $1
-- how many to list.
WITH accepted AS (
  SELECT job_id, COUNT(*) AS n FROM submissions WHERE outcome = 'accepted' GROUP BY job_id
), offenders AS (
  SELECT 'job:' || j.job_id AS subject, 'state ' || j.state || ', accepted ' || CAST(COALESCE(a.n, 0) AS TEXT) || ' times' AS detail
  FROM jobs j LEFT JOIN accepted a ON a.job_id = j.job_id
  WHERE COALESCE(a.n, 0) <> CASE WHEN j.state IN ('submitted', 'ended', 'consumed') THEN 1 ELSE 0 END
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

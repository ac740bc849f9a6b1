-- Artifacts whose work is no member of the job that they came from, or a member
-- that did not succeed. Parameter: $1 how many to list.
WITH offenders AS (
  SELECT 'work:' || a.work_id AS subject,
    'artifact from job ' || a.job_id || ', item ' || CASE WHEN i.work_id IS NULL THEN 'missing' ELSE COALESCE(i.outcome, 'open') END AS detail
  FROM artifacts a
  LEFT JOIN items i ON i.job_id = a.job_id AND i.work_id = a.work_id
  WHERE i.work_id IS NULL OR i.outcome IS NULL OR i.outcome <> 'succeeded'
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

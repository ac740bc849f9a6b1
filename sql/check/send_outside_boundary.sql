-- Members of a job under another policy version or boundary than the one that
-- was recorded when their report was accepted. Parameter: $1 how many to list.
WITH offenders AS (
  SELECT 'work:' || w.work_id AS subject,
    'accepted under ' || w.policy_id || '/' || CAST(w.policy_version AS TEXT) || ', member of job ' || MIN(j.job_id) || ' under '
      || MIN(j.policy_id || '/' || CAST(j.policy_version AS TEXT)) AS detail
  FROM items i
  JOIN works w ON w.work_id = i.work_id
  JOIN jobs j ON j.job_id = i.job_id
  WHERE w.boundary_id <> j.boundary_id OR i.boundary_id <> j.boundary_id
    OR w.policy_id <> j.policy_id OR w.policy_version <> j.policy_version
  GROUP BY w.work_id, w.policy_id, w.policy_version
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

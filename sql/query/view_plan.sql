-- What waits to be sent under each approved policy version: eligible works, and
-- members of jobs that are not sent.
WITH waiting AS (
  SELECT w.policy_id, w.policy_version, w.content_bytes FROM policy_versions v
  CROSS JOIN works w -- keeps SQLite from reading every live work
  WHERE w.policy_id = v.policy_id AND w.policy_version = v.version AND w.stage = 'pending' AND w.disposition = 'live' AND w.eligible_us <= $1
  UNION ALL
  SELECT j.policy_id, j.policy_version, w.content_bytes
  FROM jobs j JOIN items i ON i.job_id = j.job_id JOIN works w ON w.work_id = i.work_id
  WHERE j.state IN ('planning', 'ready') AND i.outcome IS NULL
    AND NOT EXISTS (SELECT 1 FROM submissions s WHERE s.job_id = j.job_id AND s.outcome IS NULL)
)
SELECT p.policy_id, p.version, b.account, b.host, b.region, COUNT(*) AS works, CAST(SUM(t.content_bytes) AS BIGINT) AS bytes
FROM waiting t
JOIN policy_versions p ON p.policy_id = t.policy_id AND p.version = t.policy_version AND p.state = 'approved'
JOIN boundaries b ON b.boundary_id = p.boundary_id
GROUP BY p.policy_id, p.version, b.account, b.host, b.region
ORDER BY p.policy_id, p.version

-- Jobs that may be sent. An open submission is uncertain and holds its job
-- back; a pause holds back what it covers, so that it does not crowd out the rest.
SELECT j.job_id, j.policy_id, j.policy_version, j.boundary_id, j.state, j.item_count, j.content_bytes, j.account, j.provider_job_id,
  j.provider_status, j.phase, j.submitted_us, j.expires_us, j.ended_us, j.poll_misses, j.first_miss_us, j.incomplete_us
FROM jobs AS j
WHERE j.state = 'ready' AND j.next_submit_us <= $1
  AND NOT EXISTS (SELECT 1 FROM submissions AS s WHERE s.job_id = j.job_id AND s.outcome IS NULL)
  AND NOT EXISTS (SELECT 1 FROM pauses AS p, boundaries AS b
    WHERE b.boundary_id = j.boundary_id AND p.stage = 'dispatch' AND p.lifted_us IS NULL
      AND p.scope IN ('all', 'policy:' || j.policy_id, 'account:' || b.account))
ORDER BY j.next_submit_us, j.job_id
LIMIT $2

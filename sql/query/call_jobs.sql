-- Jobs of an account whose texts are called one by one and that are due, with the
-- submission that stands for them. One planned behind $3 was planned by a clock
-- that was wrong, and is due as well. One that may not be called is left out, so
-- that it does not crowd out the rest, unless it has all its answers.
SELECT j.job_id, j.policy_id, j.policy_version, j.boundary_id, j.state, j.item_count, j.content_bytes, j.account, j.provider_job_id, j.provider_status,
  j.phase, j.submitted_us, j.expires_us, j.ended_us, j.poll_misses, j.first_miss_us, j.incomplete_us, s.submission_id
FROM jobs j JOIN submissions s ON s.job_id = j.job_id AND s.outcome = 'accepted'
WHERE j.state = 'submitted' AND j.called = 1 AND j.account = $1 AND (j.next_poll_us <= $2 OR j.next_poll_us > $3)
  AND (NOT EXISTS (SELECT 1 FROM calls c WHERE c.job_id = j.job_id AND c.state <> 'done')
    OR EXISTS (SELECT 1 FROM policy_versions p JOIN boundaries b ON b.boundary_id = p.boundary_id
      WHERE p.policy_id = j.policy_id AND p.version = j.policy_version AND p.state = 'approved'
        AND NOT EXISTS (SELECT 1 FROM pauses k WHERE k.stage = 'dispatch' AND k.lifted_us IS NULL
          AND k.scope IN ('all', 'account:' || b.account, 'policy:' || p.policy_id))))
ORDER BY j.next_poll_us, j.job_id LIMIT $4

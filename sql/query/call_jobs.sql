-- Jobs of an account whose texts are called one by one and that are due, with the
-- submission that stands for them. One planned behind $3 was planned by a clock
-- that was wrong, and is due as well.
SELECT j.job_id, j.policy_id, j.policy_version, j.boundary_id, j.state, j.item_count, j.content_bytes, j.account, j.provider_job_id, j.provider_status,
  j.phase, j.submitted_us, j.expires_us, j.ended_us, j.poll_misses, j.first_miss_us, j.incomplete_us, s.submission_id
FROM jobs j JOIN submissions s ON s.job_id = j.job_id AND s.outcome = 'accepted'
WHERE j.state = 'submitted' AND j.called = 1 AND j.account = $1 AND (j.next_poll_us <= $2 OR j.next_poll_us > $3)
ORDER BY j.next_poll_us, j.job_id LIMIT $4

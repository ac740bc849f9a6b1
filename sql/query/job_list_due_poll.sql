-- Submitted jobs whose poll is due; the caller locks them in this order. A poll
-- behind $2 was planned by a clock that was wrong, and is due as well.
SELECT j.job_id
FROM jobs AS j
WHERE j.state = 'submitted' AND j.called = 0 AND (j.next_poll_us <= $1 OR j.next_poll_us > $2)
  AND NOT EXISTS (SELECT 1 FROM pauses AS p, boundaries AS b
    WHERE b.boundary_id = j.boundary_id AND p.stage = 'poll' AND p.lifted_us IS NULL
      AND p.scope IN ('all', 'policy:' || j.policy_id, 'account:' || b.account))
ORDER BY j.next_poll_us, j.job_id
LIMIT $3

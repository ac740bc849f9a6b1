-- What each pass would find at an instant. CROSS JOIN keeps SQLite, which knows
-- nothing of how many works are pending, from reading every live work for them.
SELECT
  (SELECT COUNT(*) FROM holds) AS held,
  (SELECT COUNT(*) FROM policy_versions p CROSS JOIN works w
    WHERE w.policy_id = p.policy_id AND w.policy_version = p.version AND w.stage = 'pending' AND w.disposition = 'live' AND w.eligible_us <= $1) AS pending,
  (SELECT COUNT(*) FROM policy_versions p CROSS JOIN works w
    WHERE w.policy_id = p.policy_id AND w.policy_version = p.version AND w.stage = 'pending' AND w.disposition = 'live' AND w.eligible_us > $1) AS pending_later,
  (SELECT COUNT(*) FROM jobs WHERE state = 'planning') AS planning,
  (SELECT COUNT(*) FROM jobs j WHERE j.state = 'ready' AND j.next_submit_us <= $1
    AND NOT EXISTS (SELECT 1 FROM submissions s WHERE s.job_id = j.job_id AND s.outcome IS NULL)) AS ready,
  (SELECT COUNT(*) FROM jobs j WHERE j.state = 'ready' AND j.next_submit_us > $1
    AND NOT EXISTS (SELECT 1 FROM submissions s WHERE s.job_id = j.job_id AND s.outcome IS NULL)) AS ready_later,
  (SELECT COUNT(*) FROM submissions WHERE outcome IS NULL) AS open,
  (SELECT COUNT(*) FROM jobs WHERE state = 'submitted' AND called = 0 AND next_poll_us <= $1) AS polls_due,
  (SELECT COUNT(*) FROM jobs WHERE state = 'submitted' AND called = 1 AND next_poll_us <= $1) AS calls_due,
  (SELECT COUNT(*) FROM jobs WHERE state = 'submitted' AND called = 1) AS called,
  (SELECT COUNT(*) FROM jobs WHERE state = 'submitted' AND called = 0) AS submitted,
  (SELECT COUNT(*) FROM jobs WHERE state = 'ended' AND next_consume_us <= $1) AS ended_due,
  (SELECT COUNT(*) FROM jobs WHERE state = 'ended') AS ended,
  (SELECT COUNT(*) FROM works WHERE stage = 'extracted') AS extracted

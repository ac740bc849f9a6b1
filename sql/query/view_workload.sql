-- What each pass would find at an instant.
SELECT
  (SELECT COUNT(*) FROM holds) AS held,
  (SELECT COUNT(*) FROM works WHERE stage = 'pending' AND disposition = 'live' AND eligible_us <= $1) AS pending,
  (SELECT COUNT(*) FROM works WHERE stage = 'pending' AND disposition = 'live' AND eligible_us > $1) AS pending_later,
  (SELECT COUNT(*) FROM jobs WHERE state = 'planning') AS planning,
  (SELECT COUNT(*) FROM jobs j WHERE j.state = 'ready' AND j.next_submit_us <= $1
    AND NOT EXISTS (SELECT 1 FROM submissions s WHERE s.job_id = j.job_id AND s.outcome IS NULL)) AS ready,
  (SELECT COUNT(*) FROM jobs j WHERE j.state = 'ready' AND j.next_submit_us > $1
    AND NOT EXISTS (SELECT 1 FROM submissions s WHERE s.job_id = j.job_id AND s.outcome IS NULL)) AS ready_later,
  (SELECT COUNT(*) FROM submissions WHERE outcome IS NULL) AS open,
  (SELECT COUNT(*) FROM jobs WHERE state = 'submitted' AND next_poll_us <= $1) AS polls_due,
  (SELECT COUNT(*) FROM jobs WHERE state = 'submitted') AS submitted,
  (SELECT COUNT(*) FROM jobs WHERE state = 'ended' AND next_consume_us <= $1) AS ended_due,
  (SELECT COUNT(*) FROM jobs WHERE state = 'ended') AS ended,
  (SELECT COUNT(*) FROM works WHERE stage = 'extracted') AS extracted,
  (SELECT COUNT(*) FROM works w JOIN policy_versions p ON p.policy_id = w.policy_id AND p.version = w.policy_version
    WHERE w.stage IN ('pending', 'collected') AND w.disposition = 'live' AND w.due_us <= $1 AND p.on_due = 'unclassified') AS overdue

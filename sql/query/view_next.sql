-- The earliest instant at which a pass can go on. What is paused, what an open
-- submission or an open finding holds back, and works of a policy that is not
-- approved wait for a person and have no such instant. $1 is how long after its
-- send deadline a submission without an upload is closed.
WITH brakes AS (
  SELECT scope, stage FROM pauses WHERE lifted_us IS NULL
), stops AS (
  SELECT name, subject FROM findings WHERE resolved_us IS NULL
    AND name IN ('job_vanished', 'account_mismatch', 'boundary_mismatch', 'text_unreadable', 'results_unreadable', 'lane_closed')
), sending AS (
  SELECT p.policy_id, p.version FROM policy_versions p JOIN boundaries b ON b.boundary_id = p.boundary_id
  WHERE p.state = 'approved' AND NOT EXISTS (SELECT 1 FROM brakes k
    WHERE k.stage = 'dispatch' AND k.scope IN ('all', 'account:' || b.account, 'policy:' || p.policy_id))
), instants AS (
  SELECT MIN(w.eligible_us) AS at_us FROM sending s CROSS JOIN works w -- keeps SQLite from reading every live work
  WHERE w.policy_id = s.policy_id AND w.policy_version = s.version AND w.stage = 'pending' AND w.disposition = 'live'
  UNION ALL
  SELECT MIN(j.created_us) FROM sending s JOIN jobs j ON j.policy_id = s.policy_id AND j.policy_version = s.version
  WHERE j.state = 'planning'
  UNION ALL
  SELECT MIN(j.next_submit_us) FROM sending s JOIN jobs j ON j.policy_id = s.policy_id AND j.policy_version = s.version
  WHERE j.state = 'ready' AND NOT EXISTS (SELECT 1 FROM submissions o WHERE o.job_id = j.job_id AND o.outcome IS NULL)
    AND NOT EXISTS (SELECT 1 FROM stops f WHERE f.subject = 'job:' || j.job_id AND f.name IN ('boundary_mismatch', 'text_unreadable'))
  UNION ALL
  SELECT MIN(j.next_poll_us) FROM jobs j JOIN boundaries b ON b.boundary_id = j.boundary_id
  WHERE j.state = 'submitted' AND j.called = 0
    AND NOT EXISTS (SELECT 1 FROM brakes k
      WHERE k.stage = 'poll' AND k.scope IN ('all', 'account:' || b.account, 'policy:' || j.policy_id))
    AND NOT EXISTS (SELECT 1 FROM stops f WHERE f.subject = 'job:' || j.job_id AND f.name IN ('account_mismatch', 'job_vanished'))
  UNION ALL
  -- A call is made while its text may be sent; what has all its answers goes on.
  SELECT MIN(j.next_poll_us) FROM jobs j
  WHERE j.state = 'submitted' AND j.called = 1
    AND (NOT EXISTS (SELECT 1 FROM calls c WHERE c.job_id = j.job_id AND c.state <> 'done')
      OR EXISTS (SELECT 1 FROM sending s WHERE s.policy_id = j.policy_id AND s.version = j.policy_version)
        AND NOT EXISTS (SELECT 1 FROM stops f WHERE f.subject = 'job:' || j.job_id AND f.name IN ('account_mismatch', 'boundary_mismatch', 'text_unreadable'))
        AND NOT EXISTS (SELECT 1 FROM stops f
          WHERE f.subject = 'policy:' || j.policy_id || '/' || CAST(j.policy_version AS TEXT) AND f.name = 'lane_closed'))
  UNION ALL
  SELECT MIN(j.next_consume_us) FROM jobs j
  WHERE j.state = 'ended'
    AND NOT EXISTS (SELECT 1 FROM stops f WHERE f.subject = 'job:' || j.job_id AND f.name IN ('account_mismatch', 'results_unreadable'))
  UNION ALL
  -- None is closed while a recovery may be under way.
  SELECT MIN(send_deadline_us) + $1 FROM submissions
  WHERE outcome IS NULL AND body_mac IS NULL AND NOT EXISTS (SELECT 1 FROM brakes k WHERE k.stage = 'dispatch' AND k.scope = 'all')
  UNION ALL
  -- What a look proves nothing about waits for a person as well.
  SELECT MIN(COALESCE(next_look_us, send_deadline_us)) FROM submissions
  WHERE outcome IS NULL AND body_mac IS NOT NULL AND obstacle IS NULL
  UNION ALL
  SELECT MIN(created_us) FROM works
  WHERE stage = 'extracted' AND NOT EXISTS (SELECT 1 FROM brakes k WHERE k.stage = 'apply' AND k.scope = 'all')
)
SELECT MIN(at_us) FROM instants

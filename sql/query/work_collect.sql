-- Takes the works of a planning step, those that are still to be taken. The
-- conditions stand in a CASE, so that works are looked up by their ids: they
-- invite PostgreSQL to read all pending works for each step.
UPDATE works SET stage = 'collected'
WHERE work_id IN (SELECT work_id FROM step_works)
  AND CASE WHEN stage = 'pending' AND disposition = 'live' AND eligible_us <= $1
    AND policy_id = $2 AND policy_version = $3 THEN 1 ELSE 0 END = 1

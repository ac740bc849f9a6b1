-- Takes the works of a planning step, those that are still to be taken.
UPDATE works SET stage = 'collected'
WHERE work_id IN (SELECT work_id FROM step_works)
  AND stage = 'pending' AND disposition = 'live' AND eligible_us <= $1
  AND policy_id = $2 AND policy_version = $3

-- Eligible works of a policy version and urgency, by age, behind a cursor. It
-- reads the partial index of pending works from there on.
SELECT work_id, urgent, created_us, content_bytes
FROM works
WHERE stage = 'pending' AND disposition = 'live'
  AND policy_id = $1 AND policy_version = $2 AND urgent = $3
  AND (created_us, work_id) > ($4, $5)
  AND eligible_us <= $6
ORDER BY created_us, work_id
LIMIT $7

-- Approved policy versions with something to collect, or with a job to finish planning.
SELECT p.boundary_id, p.spec, p.spec_mac, p.state
FROM policy_versions AS p
WHERE p.state = 'approved' AND (
  EXISTS (SELECT 1 FROM works AS w
    WHERE w.stage = 'pending' AND w.disposition = 'live'
      AND w.policy_id = p.policy_id AND w.policy_version = p.version AND w.eligible_us <= $1)
  OR EXISTS (SELECT 1 FROM jobs AS j
    WHERE j.state = 'planning' AND j.policy_id = p.policy_id AND j.policy_version = p.version))
ORDER BY p.policy_id, p.version

-- The works of an adopted job that are to be done, in the order in which they are
-- locked; the caller adds the row lock.
SELECT w.work_id, w.policy_id, w.policy_version, w.boundary_id, w.content_bytes FROM works AS w
WHERE w.work_id IN (SELECT a.work_id FROM adopted_works AS a) AND w.stage = 'pending'
ORDER BY w.work_id

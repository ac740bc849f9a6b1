-- Ends pending works without an artifact. Apply makes their records. For the
-- CASE see work_collect.sql.
UPDATE works SET stage = 'extracted', reason = (SELECT c.reason FROM step_closings AS c WHERE c.work_id = works.work_id)
WHERE work_id IN (SELECT work_id FROM step_closings)
  AND CASE WHEN stage = 'pending' AND disposition = 'live' THEN 1 ELSE 0 END = 1

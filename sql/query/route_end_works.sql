-- Ends unfinished works without an artifact, since a person gets their reports.
-- A member of a job stays one: its answer, if it comes, is kept as late. For the
-- CASE see work_collect.sql.
UPDATE works SET stage = 'extracted', reason = 'routed'
WHERE work_id IN (SELECT work_id FROM route_works WHERE made = 0)
  AND CASE WHEN stage IN ('pending', 'collected') AND disposition = 'live' THEN 1 ELSE 0 END = 1

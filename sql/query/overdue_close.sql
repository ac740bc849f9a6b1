-- Ends overdue works without an artifact. A member of a job stays one: its
-- answer, if it comes, is kept as late.
UPDATE works SET stage = 'extracted', reason = 'overdue'
WHERE work_id IN (SELECT o.work_id FROM overdue o) AND stage IN ('pending', 'collected') AND disposition = 'live'

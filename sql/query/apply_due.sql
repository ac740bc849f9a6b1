-- Reports with an extracted work, oldest first. A work that lacks what its
-- stage promises is left to the invariants.
SELECT w.report_id FROM works w
WHERE w.stage = 'extracted' AND (w.reason IS NOT NULL OR EXISTS (SELECT 1 FROM artifacts a WHERE a.work_id = w.work_id))
ORDER BY w.created_us, w.work_id LIMIT $1

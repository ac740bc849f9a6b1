-- Moves the works of a chunk on. A work that was recorded or closed meanwhile
-- stays as it is.
-- The IN tells SQLite to begin with the chunk.
UPDATE works SET stage = r.stage, reason = r.reason, eligible_us = COALESCE(r.eligible_us, works.eligible_us)
FROM rulings r
WHERE works.work_id = r.work_id AND works.stage = 'collected'
  AND works.work_id IN (SELECT work_id FROM rulings)

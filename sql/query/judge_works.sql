-- Moves the works of a chunk on. A work that was recorded or closed meanwhile
-- stays as it is.
UPDATE works SET stage = r.stage, reason = r.reason, eligible_us = COALESCE(r.eligible_us, works.eligible_us)
FROM rulings r
WHERE works.work_id = r.work_id AND works.stage = 'collected'

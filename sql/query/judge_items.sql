-- Gives the members of a chunk their outcome, and what they cost.
-- The IN tells SQLite to begin with the chunk.
UPDATE items SET outcome = r.outcome, code = r.code, decided_us = $1, cost_micros = r.cost
FROM rulings r
WHERE items.job_id = $2 AND items.work_id = r.work_id AND items.outcome IS NULL
  AND items.work_id IN (SELECT work_id FROM rulings)

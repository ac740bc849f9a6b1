-- Gives the members of a chunk their outcome.
UPDATE items SET outcome = r.outcome, code = r.code, decided_us = $1
FROM rulings r
WHERE items.job_id = $2 AND items.work_id = r.work_id AND items.outcome IS NULL

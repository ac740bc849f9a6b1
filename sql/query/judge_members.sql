-- The next members of a job without an outcome, behind a position.
SELECT position, work_id FROM items
WHERE job_id = $1 AND position > $2 AND outcome IS NULL
ORDER BY position LIMIT $3

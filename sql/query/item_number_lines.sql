-- Numbers the members that are to be sent.
UPDATE items SET line = n.line
FROM (SELECT work_id, ROW_NUMBER() OVER (ORDER BY position) AS line FROM items WHERE job_id = $1 AND outcome IS NULL) AS n
WHERE items.job_id = $1 AND items.work_id = n.work_id

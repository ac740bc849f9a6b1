-- How the works of the members of a job between two positions ended before.
SELECT i.work_id, e.outcome, COUNT(*) AS times
FROM items i
JOIN items e ON e.work_id = i.work_id AND e.job_id <> i.job_id AND e.outcome IS NOT NULL
WHERE i.job_id = $1 AND i.position > $2 AND i.position <= $3 AND i.outcome IS NULL
GROUP BY i.work_id, e.outcome

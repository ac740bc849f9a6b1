-- Works of a job that are not wanted any more and have a call without an answer.
SELECT DISTINCT c.work_id FROM calls c
WHERE c.job_id = $1 AND c.state <> 'done'
  AND COALESCE((SELECT CASE WHEN w.disposition = 'live' AND w.stage = 'collected' THEN 1 ELSE 0 END
    FROM works w WHERE w.work_id = c.work_id), 0) = 0
ORDER BY c.work_id LIMIT $2

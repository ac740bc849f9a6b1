-- Counts the members of a planning step.
UPDATE jobs SET item_count = item_count + $1,
  content_bytes = content_bytes + (SELECT CAST(COALESCE(SUM(w.content_bytes), 0) AS BIGINT)
    FROM works AS w WHERE w.work_id IN (SELECT work_id FROM step_works))
WHERE job_id = $2 AND state = 'planning'

-- Claims calls: until $1 nobody else makes them. The guard stands here again.
-- The IN tells SQLite to begin with the few.
UPDATE calls SET state = 'claimed', attempts = attempts + 1, next_call_us = $1
FROM claiming k
WHERE calls.job_id = $2 AND calls.work_id = k.work_id AND calls.segment = k.segment AND calls.state <> 'done'
  AND calls.work_id IN (SELECT work_id FROM claiming)

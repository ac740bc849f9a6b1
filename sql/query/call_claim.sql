-- Claims the calls of a job that are due: until $1 nobody else makes them. A claim
-- that ended without a trace is a fault, as in call_candidates. They
-- are compared by all three columns, for which PostgreSQL looks each up: a job
-- that is named outside invites it, while it has no statistics yet, to read all
-- of the job. The guard stands here again.
UPDATE calls SET state = 'claimed', attempts = attempts + 1, faults = faults + CASE WHEN state = 'claimed' THEN 1 ELSE 0 END, next_call_us = $1
WHERE state <> 'done' AND (job_id, work_id, segment) IN (
  SELECT job_id, work_id, segment FROM calls WHERE job_id = $2 AND state <> 'done' AND (+next_call_us <= $3 OR +next_call_us > $4)
  ORDER BY next_call_us, line, segment LIMIT $5)

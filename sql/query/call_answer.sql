-- A call has its answer. The first one that is committed counts.
UPDATE calls SET state = 'done', next_call_us = NULL, segments = COALESCE(segments, $1), outcome = $2, code = $3, model = $4,
  encrypted = $5, key_id = $6, input_tokens = $7, output_tokens = $8, called_us = $9
WHERE job_id = $10 AND work_id = $11 AND segment = $12 AND state <> 'done'

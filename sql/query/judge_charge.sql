-- Adds what the items of a chunk cost to the submission that they were sent by.
-- $5 is the most that a sum of money may be.
UPDATE submissions SET input_tokens = input_tokens + $1, output_tokens = output_tokens + $2,
  cost_micros = CASE WHEN cost_micros + $3 > $5 THEN $5 ELSE cost_micros + $3 END, cost_unknown = cost_unknown + $4
WHERE job_id = $6 AND outcome = 'accepted'

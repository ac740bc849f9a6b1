-- Prices a submission that has no price, unless something of it is charged.
UPDATE submissions SET input_price_micros = $1, output_price_micros = $2, currency = $3
WHERE job_id = $4 AND outcome = 'accepted' AND currency IS NULL AND input_tokens + output_tokens + cost_unknown = 0

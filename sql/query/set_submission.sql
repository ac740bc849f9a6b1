-- The submission that the provider accepted for a job, and its price.
SELECT submission_id, input_price_micros, output_price_micros, currency FROM submissions WHERE job_id = $1 AND outcome = 'accepted'

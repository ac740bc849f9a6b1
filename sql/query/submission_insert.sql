-- The intent to send a job.
INSERT INTO submissions (submission_id, job_id, attempt, account, fence, manifest_mac, line_count, intent_us, send_deadline_us,
  estimated_input_tokens, max_output_tokens, estimated_micros, input_price_micros, output_price_micros, currency)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)

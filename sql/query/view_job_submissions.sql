-- The submissions of a job.
SELECT submission_id, attempt, line_count, body_bytes, intent_us, send_deadline_us, input_file_id, outcome, evidence, closed_us,
  looks, last_look_us, next_look_us, fenced_us, obstacle,
  estimated_input_tokens, max_output_tokens, estimated_micros, currency, input_tokens, output_tokens, cost_micros, cost_unknown
FROM submissions WHERE job_id = $1 ORDER BY attempt

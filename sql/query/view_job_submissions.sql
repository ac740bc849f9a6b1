-- The submissions of a job.
SELECT submission_id, attempt, line_count, body_bytes, intent_us, send_deadline_us, input_file_id, outcome, evidence, closed_us
FROM submissions WHERE job_id = $1 ORDER BY attempt

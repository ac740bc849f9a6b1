-- Submissions without an outcome, oldest first.
SELECT submission_id, job_id, intent_us, send_deadline_us, input_file_id, looks, next_look_us, obstacle FROM submissions
WHERE outcome IS NULL
ORDER BY intent_us, submission_id

-- Submissions without an outcome past their send deadline, oldest first.
SELECT submission_id, job_id, intent_us, input_file_id FROM submissions
WHERE outcome IS NULL AND send_deadline_us <= $1
ORDER BY intent_us, submission_id

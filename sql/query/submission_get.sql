-- One submission.
SELECT job_id, account, outcome, input_file_id FROM submissions WHERE submission_id = $1

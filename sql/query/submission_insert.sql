-- The intent to send a job.
INSERT INTO submissions (submission_id, job_id, attempt, account, fence, manifest_mac, line_count, intent_us, send_deadline_us)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)

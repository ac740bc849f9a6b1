-- The provider has the job.
UPDATE jobs SET state = 'submitted', next_submit_us = NULL, account = $1, provider_job_id = $2, provider_status = $3,
  submitted_us = $4, next_poll_us = $5, expires_us = $6
WHERE job_id = $7 AND state = 'ready'

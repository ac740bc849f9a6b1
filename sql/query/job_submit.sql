-- The provider has the job, or its texts are to be called one by one.
UPDATE jobs SET state = 'submitted', next_submit_us = NULL, account = $1, provider_job_id = $2, provider_status = $3,
  submitted_us = $4, next_poll_us = $5, expires_us = $6, called = $7
WHERE job_id = $8 AND state = 'ready'

-- The submission that the provider accepted for a job.
SELECT submission_id FROM submissions WHERE job_id = $1 AND outcome = 'accepted'

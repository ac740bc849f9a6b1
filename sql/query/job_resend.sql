-- Jobs of a list may be sent now, unless a submission of theirs is open.
UPDATE jobs SET next_submit_us = $1
WHERE job_id IN (SELECT job_id FROM unsent_jobs) AND state = 'ready'
  AND NOT EXISTS (SELECT 1 FROM submissions AS s WHERE s.job_id = jobs.job_id AND s.outcome IS NULL)

-- Older jobs that have works of an adopted one without an outcome, with what a
-- provider may know them by, in the order in which they are locked; the caller adds
-- the row lock. One that has ended keeps its works: it has answers, or soon is known
-- to have none.
SELECT j.job_id, COALESCE(j.provider_job_id, '') AS provider_job_id,
  COALESCE((SELECT s.submission_id FROM submissions AS s WHERE s.job_id = j.job_id AND s.outcome IS NULL), '') AS submission_id
FROM jobs AS j
WHERE j.created_us < $1 AND j.state <> 'ended'
  AND j.job_id IN (SELECT i.job_id FROM items AS i JOIN adopted_works AS a ON a.work_id = i.work_id WHERE i.outcome IS NULL)
ORDER BY j.job_id

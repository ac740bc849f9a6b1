-- Jobs that have works of an adopted one without an outcome, how many, and what a
-- provider may know the jobs by.
SELECT j.job_id, j.state, COALESCE(j.provider_job_id, '') AS provider_job_id,
  COALESCE((SELECT s.submission_id FROM submissions AS s WHERE s.job_id = j.job_id AND s.outcome IS NULL), '') AS submission_id,
  (SELECT COUNT(*) FROM items AS i JOIN adopted_works AS a ON a.work_id = i.work_id WHERE i.job_id = j.job_id AND i.outcome IS NULL) AS works
FROM jobs AS j
WHERE j.job_id IN (SELECT i.job_id FROM items AS i JOIN adopted_works AS a ON a.work_id = i.work_id WHERE i.outcome IS NULL)
ORDER BY j.job_id

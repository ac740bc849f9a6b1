-- Unsent jobs that hold works of an adopted one, without an open submission, in
-- the order in which they are locked; the caller adds the row lock.
SELECT j.job_id FROM jobs AS j
WHERE j.state IN ('planning', 'ready')
  AND EXISTS (SELECT 1 FROM items AS i JOIN adopted_works AS a ON a.work_id = i.work_id WHERE i.job_id = j.job_id AND i.outcome IS NULL)
  AND NOT EXISTS (SELECT 1 FROM submissions AS s WHERE s.job_id = j.job_id AND s.outcome IS NULL)
ORDER BY j.job_id

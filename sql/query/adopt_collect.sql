-- Its members are in a job now.
UPDATE works SET stage = 'collected'
WHERE stage = 'pending' AND work_id IN (SELECT i.work_id FROM items AS i WHERE i.job_id = $1)

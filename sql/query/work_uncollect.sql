-- Gives the works of members that were not sent back. They are superseded or
-- withdrawn, so collect does not take them again.
UPDATE works SET stage = 'pending'
WHERE stage = 'collected'
  AND work_id IN (SELECT i.work_id FROM items AS i WHERE i.job_id = $1 AND i.outcome = 'not_sent')

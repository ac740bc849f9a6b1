-- Works of an adopted job that no other job has any more.
UPDATE works SET stage = 'pending'
WHERE stage = 'collected'
  AND work_id IN (SELECT a.work_id FROM adopted_works AS a)
  AND NOT EXISTS (SELECT 1 FROM items AS i WHERE i.work_id = works.work_id AND i.outcome IS NULL)

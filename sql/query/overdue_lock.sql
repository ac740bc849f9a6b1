-- Those of the chosen works that are still unfinished, in the order in which
-- they are locked; the caller adds the row lock.
SELECT work_id FROM works
WHERE work_id IN (SELECT o.work_id FROM overdue o) AND stage IN ('pending', 'collected') AND disposition = 'live'
ORDER BY work_id

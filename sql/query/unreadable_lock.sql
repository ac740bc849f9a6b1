-- Those of the works with a damaged text that are still to be sent, in the order
-- in which they are locked; the caller adds the row lock. For the CASE see
-- work_collect.sql.
SELECT work_id FROM works
WHERE work_id IN (SELECT work_id FROM unreadable_works)
  AND CASE WHEN stage = 'collected' AND disposition = 'live' THEN 1 ELSE 0 END = 1
ORDER BY work_id

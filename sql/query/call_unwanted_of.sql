-- Of the works whose calls are about to be made, those that are not wanted any more.
SELECT DISTINCT k.work_id FROM claiming k
WHERE COALESCE((SELECT CASE WHEN w.disposition = 'live' AND w.stage = 'collected' THEN 1 ELSE 0 END
  FROM works w WHERE w.work_id = k.work_id), 0) = 0

-- The reports behind the open members of a job, by id; the caller locks them in this order.
SELECT r.report_id FROM reports AS r
WHERE r.report_id IN (SELECT w.report_id FROM items AS i JOIN works AS w ON w.work_id = i.work_id
  WHERE i.job_id = $1 AND i.outcome IS NULL)
ORDER BY r.report_id

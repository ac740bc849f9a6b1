-- The reports behind the calls that are about to be made, by id; the caller locks
-- them in this order.
SELECT r.report_id FROM reports AS r
WHERE r.report_id IN (SELECT w.report_id FROM claiming AS k JOIN works AS w ON w.work_id = k.work_id)
ORDER BY r.report_id

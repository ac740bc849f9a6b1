-- The reports behind the calls that are about to be made, by id; the caller locks
-- them in this order.
SELECT r.report_id FROM reports AS r
WHERE r.report_id IN (
  SELECT w.report_id
  FROM (SELECT work_id FROM calls WHERE job_id = $1 AND state <> 'done' AND (+next_call_us <= $2 OR +next_call_us > $3)
    ORDER BY next_call_us, line, segment LIMIT $4) AS k
  JOIN works AS w ON w.work_id = k.work_id)
ORDER BY r.report_id

-- Schedules by name, each with the slot that is not over, or else the latest, and
-- with who holds its lease. failed_runs are counted over the last four slots that
-- lie behind the last one that was done.
SELECT s.schedule, s.expression, s.zone, s.next_due_us, l.holder, t.slot_us, t.fence, t.missed, t.begun, t.started_us, t.retry_us, t.finished_us, t.outcome,
  (SELECT CAST(COALESCE(SUM(CASE WHEN f.outcome = 'failed' THEN f.begun WHEN f.outcome IS NULL THEN f.begun - 1 ELSE 0 END), 0) AS BIGINT)
   FROM slots f
   WHERE f.schedule = s.schedule AND f.slot_us >
     (SELECT COALESCE(MAX(CASE WHEN d.outcome = 'done' THEN d.slot_us END), MIN(d.slot_us) - 1)
      FROM (SELECT z.slot_us, z.outcome FROM slots z WHERE z.schedule = s.schedule ORDER BY z.slot_us DESC LIMIT 4) d)) AS failed_runs
FROM schedules s
LEFT JOIN leases l ON l.name = 'schedule:' || s.schedule AND l.holder <> '' AND l.expires_us > $1
LEFT JOIN slots t ON t.schedule = s.schedule AND t.slot_us = COALESCE(
  (SELECT o.slot_us FROM slots o WHERE o.schedule = s.schedule AND o.finished_us IS NULL),
  (SELECT MAX(x.slot_us) FROM slots x WHERE x.schedule = s.schedule))
ORDER BY s.schedule

-- Schedules by name, each with the slot that is not over, or else the latest, and
-- with who holds its lease.
SELECT s.schedule, s.expression, s.zone, s.next_due_us, l.holder, t.slot_us, t.fence, t.missed, t.begun, t.started_us, t.retry_us, t.finished_us, t.outcome
FROM schedules s
LEFT JOIN leases l ON l.name = 'schedule:' || s.schedule AND l.holder <> '' AND l.expires_us > $1
LEFT JOIN slots t ON t.schedule = s.schedule AND t.slot_us = COALESCE(
  (SELECT o.slot_us FROM slots o WHERE o.schedule = s.schedule AND o.finished_us IS NULL),
  (SELECT MAX(x.slot_us) FROM slots x WHERE x.schedule = s.schedule))
ORDER BY s.schedule

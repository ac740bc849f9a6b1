-- Makes a schedule known, or gives one another expression or zone. What is due
-- already stays due, so that a change does not lose a run that was missed.
INSERT INTO schedules (schedule, expression, zone, next_due_us) VALUES ($1, $2, $3, $4)
ON CONFLICT (schedule) DO UPDATE SET expression = excluded.expression, zone = excluded.zone,
  next_due_us = CASE WHEN schedules.next_due_us <= $5 THEN schedules.next_due_us ELSE excluded.next_due_us END
WHERE schedules.expression <> excluded.expression OR schedules.zone <> excluded.zone

-- Reads a schedule; the caller adds the row lock.
SELECT schedule, expression, zone, next_due_us FROM schedules WHERE schedule = $1

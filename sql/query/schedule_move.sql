-- Sets when a schedule is due the next time.
UPDATE schedules SET next_due_us = $1 WHERE schedule = $2

-- Notes how a run of a slot ended: it is over, or it is begun again at retry_us.
UPDATE slots SET finished_us = $1, retry_us = $2, outcome = $3 WHERE schedule = $4 AND slot_us = $5 AND fence = $6 AND begun = $7 AND finished_us IS NULL

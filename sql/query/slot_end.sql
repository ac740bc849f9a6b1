-- Ends the slot that is not over, because the next one takes its place.
UPDATE slots SET finished_us = $1, retry_us = NULL, outcome = $2 WHERE schedule = $3 AND finished_us IS NULL

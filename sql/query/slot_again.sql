-- Begins the slot again that is not over.
UPDATE slots SET fence = $1, begun = begun + 1, started_us = $2, retry_us = NULL, outcome = NULL
WHERE schedule = $3 AND finished_us IS NULL
RETURNING slot_us, fence, missed, begun, started_us, retry_us, finished_us, outcome

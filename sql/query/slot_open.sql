-- The slot of a schedule that is not over.
SELECT slot_us, fence, missed, begun, started_us, retry_us, finished_us, outcome FROM slots WHERE schedule = $1 AND finished_us IS NULL

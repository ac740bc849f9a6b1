-- Begins a slot. An instant that has one already is not begun a second time.
INSERT INTO slots (schedule, slot_us, fence, missed, started_us) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (schedule, slot_us) DO NOTHING
RETURNING slot_us, fence, missed, begun, started_us, retry_us, finished_us, outcome

-- Removes the slots of a schedule that were over long ago.
DELETE FROM slots WHERE schedule = $1 AND slot_us < $2 AND finished_us IS NOT NULL

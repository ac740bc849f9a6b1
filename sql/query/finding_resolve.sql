-- Closes an open event.
UPDATE findings SET resolved_us = $1, resolved_by = $2, resolution = $3
WHERE finding_id = $4 AND kind = 'event' AND resolved_us IS NULL

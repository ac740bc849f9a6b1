-- Closes the open event of a name about a subject, if there is one.
UPDATE findings SET resolved_us = $1, resolved_by = $2, resolution = $3
WHERE name = $4 AND subject = $5 AND kind = 'event' AND resolved_us IS NULL

-- Notes that the input file of an open submission was deleted, and counts the
-- list that came before it.
UPDATE submissions SET fenced_us = $1, looks = looks + 1, last_look_us = $1, next_look_us = $2, obstacle = NULL
WHERE submission_id = $3 AND outcome IS NULL

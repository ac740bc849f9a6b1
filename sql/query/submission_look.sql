-- Notes a look for the job of an open submission that settled nothing.
UPDATE submissions SET looks = looks + $1, last_look_us = $2, next_look_us = $3, obstacle = $4
WHERE submission_id = $5 AND outcome IS NULL

-- Closes an open submission. text_left is NULL where nobody knows.
UPDATE submissions SET outcome = $1, evidence = $2, closed_us = $3, text_left = $4 WHERE submission_id = $5 AND outcome IS NULL

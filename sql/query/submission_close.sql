-- Closes an open submission.
UPDATE submissions SET outcome = $1, evidence = $2, closed_us = $3 WHERE submission_id = $4 AND outcome IS NULL

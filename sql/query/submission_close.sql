-- Closes an open submission. text_left is NULL where nobody knows. An input file
-- that was not noted may become known with its job.
UPDATE submissions SET outcome = $1, evidence = $2, closed_us = $3, text_left = $4, input_file_id = COALESCE(input_file_id, $5)
WHERE submission_id = $6 AND outcome IS NULL

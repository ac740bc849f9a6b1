-- Closes an open submission. text_left is NULL where nobody knows. An input file
-- that was not noted may become known with its job. Once somebody has looked for
-- the job, a refusal of its sender does not close it: the create may have been
-- repeated under its key since.
UPDATE submissions SET outcome = $1, evidence = $2, closed_us = $3, text_left = $4, input_file_id = COALESCE(input_file_id, $5)
WHERE submission_id = $6 AND outcome IS NULL AND ($1 <> 'rejected' OR last_look_us IS NULL)

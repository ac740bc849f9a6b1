-- Notes the input file of an open submission, once.
UPDATE submissions SET input_file_id = $1, body_bytes = $2, body_mac = $3
WHERE submission_id = $4 AND outcome IS NULL AND (input_file_id IS NULL OR input_file_id = $1)

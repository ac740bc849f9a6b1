-- Notes the body of an open submission, once, and its input file if it is one.
UPDATE submissions SET input_file_id = $1, body_bytes = $2, body_mac = $3
WHERE submission_id = $4 AND outcome IS NULL AND (body_mac IS NULL OR body_mac = $3 AND COALESCE(input_file_id, '') = COALESCE($1, ''))

-- Whole sets of a job are to be read again. How many lines they had is kept: a
-- later reading that has fewer is cut short.
UPDATE result_sets SET state = 'staging', most_lines = CASE WHEN line_count > most_lines THEN line_count ELSE most_lines END,
  line_count = NULL, byte_count = NULL, mac = NULL, staged_us = NULL
WHERE job_id = $1 AND state = 'whole'

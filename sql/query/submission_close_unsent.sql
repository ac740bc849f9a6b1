-- Closes the open submissions of a list of jobs for which no job was asked. The
-- guard stands here again: a sender may have noted its body meanwhile.
UPDATE submissions SET outcome = 'proven_absent', evidence = $1, closed_us = $2
WHERE job_id IN (SELECT job_id FROM unsent_jobs) AND outcome IS NULL AND body_mac IS NULL AND send_deadline_us <= $3
RETURNING job_id

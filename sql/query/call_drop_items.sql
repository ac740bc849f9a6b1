-- Members that are not wanted any more and of which no call was made are not sent.
UPDATE items SET outcome = 'not_sent', line = NULL, decided_us = $1
WHERE job_id = $2 AND outcome IS NULL AND work_id IN (SELECT work_id FROM uncalled)
  AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.job_id = items.job_id AND c.work_id = items.work_id AND c.attempts > 0)

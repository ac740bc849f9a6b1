-- Members whose work is not wanted any more are not sent.
UPDATE items SET outcome = 'not_sent', line = NULL, decided_us = $1
WHERE job_id = $2 AND outcome IS NULL
  AND NOT EXISTS (SELECT 1 FROM works AS w WHERE w.work_id = items.work_id AND w.disposition = 'live' AND w.stage = 'collected')

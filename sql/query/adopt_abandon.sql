-- Gives an unsent job up, whose members another job has. That it is unsent
-- stands here again: an intent may have been committed while its lock was
-- waited for.
UPDATE jobs SET state = 'abandoned', next_submit_us = NULL
WHERE job_id = $1 AND (state = 'planning' OR state = 'ready')
  AND NOT EXISTS (SELECT 1 FROM submissions AS s WHERE s.job_id = jobs.job_id AND s.outcome IS NULL)

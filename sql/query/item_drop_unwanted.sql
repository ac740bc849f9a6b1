-- Members whose work is not wanted any more are not sent. What a work must be
-- stands in the sub-select's result, so that it is looked up by its id: as a
-- condition it invites PostgreSQL, while it has no statistics yet, to read the
-- partial index of all unfinished works for each member.
UPDATE items SET outcome = 'not_sent', line = NULL, decided_us = $1
WHERE job_id = $2 AND outcome IS NULL
  AND COALESCE((SELECT CASE WHEN w.disposition = 'live' AND w.stage = 'collected' THEN 1 ELSE 0 END
    FROM works AS w WHERE w.work_id = items.work_id), 0) = 0

-- Works of an adopted job leave an older one: $1 is the present, $2 the older job.
-- What it tells of them later is late. They keep their lines, which an open
-- submission was made of.
UPDATE items SET outcome = 'not_run', code = 'sent_again', decided_us = $1
WHERE job_id = $2 AND outcome IS NULL AND work_id IN (SELECT a.work_id FROM adopted_works AS a)

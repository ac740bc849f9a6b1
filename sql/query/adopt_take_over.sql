-- Works of an adopted job leave the older ones that have no outcome for them: $1 is
-- the present, $2 when the adopted one was made. What an older job tells of them
-- later is late. One that has ended keeps them: it has answers, or soon is known to
-- have none.
UPDATE items SET outcome = 'not_run', code = 'sent_again', line = NULL, decided_us = $1
WHERE outcome IS NULL
  AND work_id IN (SELECT a.work_id FROM adopted_works AS a)
  AND job_id IN (SELECT j.job_id FROM jobs AS j WHERE j.created_us < $2 AND j.state <> 'ended')

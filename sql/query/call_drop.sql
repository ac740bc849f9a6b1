-- No further call is made for members that are not wanted any more.
UPDATE calls SET state = 'done', next_call_us = NULL, outcome = 'cancelled', code = 'not_wanted', segments = COALESCE(segments, 1)
WHERE job_id = $1 AND state <> 'done' AND work_id IN (SELECT work_id FROM uncalled)

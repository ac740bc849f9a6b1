-- A call has no answer, and is due again, unless its claim is another's by now.
-- attempts forgets one that was not made.
UPDATE calls SET state = 'due', next_call_us = $1, faults = faults + $2, attempts = attempts - $3, code = $4
WHERE job_id = $5 AND work_id = $6 AND segment = $7 AND state = 'claimed' AND next_call_us = $8

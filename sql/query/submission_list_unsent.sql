-- Jobs with an open submission that has no input file although its send
-- deadline has passed. The caller locks them, in this order.
SELECT j.job_id
FROM jobs AS j JOIN submissions AS s ON s.job_id = j.job_id
WHERE j.state = 'ready' AND s.outcome IS NULL AND s.input_file_id IS NULL AND s.send_deadline_us <= $1
ORDER BY j.job_id
LIMIT $2

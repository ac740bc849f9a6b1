-- Jobs with an open submission whose body was not noted although its send
-- deadline has passed. The caller locks them, in this order.
SELECT j.job_id
FROM jobs AS j JOIN submissions AS s ON s.job_id = j.job_id
WHERE j.state = 'ready' AND s.outcome IS NULL AND s.body_mac IS NULL AND s.send_deadline_us <= $1 AND ($3 = '' OR s.account = $3)
ORDER BY j.job_id
LIMIT $2

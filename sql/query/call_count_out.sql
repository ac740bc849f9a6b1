-- How many calls of an account may be on their way. A claim behind $2 was made by
-- a clock that was wrong. CROSS JOIN has SQLite begin with the claimed ones.
SELECT COUNT(*) FROM calls c CROSS JOIN jobs j
WHERE c.state = 'claimed' AND c.next_call_us > $1 AND c.next_call_us <= $2 AND j.job_id = c.job_id AND j.account = $3

-- The calls of a job that are due, in the order of its lines: those that wait for
-- their instant, and claimed ones whose process left no trace. One behind $3 was
-- planned by a clock that was wrong. The + keep SQLite from looking the two up one
-- after the other: it would sort all calls of the job each time.
SELECT work_id, segment FROM calls
WHERE job_id = $1 AND state <> 'done' AND (+next_call_us <= $2 OR +next_call_us > $3)
ORDER BY next_call_us, line, segment LIMIT $4

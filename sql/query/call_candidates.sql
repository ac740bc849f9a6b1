-- The calls of a job that are due, in the order of its lines, with their texts and
-- whether they are still wanted: those that wait for their instant, and claimed
-- ones whose process left no trace, which is a fault as well: the text may be what
-- ended it. One behind $3 was planned by a clock that was
-- wrong. The + keep SQLite from looking the two up one after the other: it would
-- sort all calls of the job each time. The limit stands in front of the joins, so
-- that PostgreSQL knows how few are looked up, and CROSS JOIN has SQLite begin
-- with them.
SELECT k.work_id, k.segment, COALESCE(k.segments, 0) AS segments, k.line,
  k.faults + CASE WHEN k.state = 'claimed' THEN 1 ELSE 0 END AS faults, w.report_id, v.content_mac, t.encrypted, t.key_id,
  CASE WHEN w.disposition = 'live' AND w.stage = 'collected' THEN 1 ELSE 0 END AS wanted
FROM (SELECT work_id, segment, segments, line, state, faults, next_call_us FROM calls
  WHERE job_id = $1 AND state <> 'done' AND (+next_call_us <= $2 OR +next_call_us > $3)
  ORDER BY next_call_us, line, segment LIMIT $4) AS k
CROSS JOIN works w
CROSS JOIN revisions v
LEFT JOIN texts t ON t.report_id = w.report_id AND t.revision = w.revision
WHERE w.work_id = k.work_id AND v.report_id = w.report_id AND v.revision = w.revision
ORDER BY k.next_call_us, k.line, k.segment

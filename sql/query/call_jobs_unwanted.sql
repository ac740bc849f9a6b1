-- Jobs of an account that have calls without an answer about works that are not
-- wanted any more, whether they may be called or not.
SELECT j.job_id FROM jobs j
WHERE j.state = 'submitted' AND j.called = 1 AND j.account = $1
  AND EXISTS (SELECT 1 FROM calls c JOIN works w ON w.work_id = c.work_id
    WHERE c.job_id = j.job_id AND c.state <> 'done' AND NOT (w.disposition = 'live' AND w.stage = 'collected'))
ORDER BY j.next_poll_us, j.job_id LIMIT $2

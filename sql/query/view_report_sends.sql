-- Every submission of a job that a work of the report was a member of when it
-- was sent, or the membership while there is none, in order. latest tells the
-- newest submission of a job: the item's outcome belongs to it.
SELECT i.work_id, j.job_id, j.state, j.provider_job_id, b.processor, b.account, b.host, b.region, i.outcome, i.code,
  j.called, j.next_submit_us, CASE WHEN j.state = 'ready' THEN j.waits_for END AS waits_for, j.next_poll_us, j.next_consume_us,
  s.submission_id, s.outcome AS submission_outcome, s.evidence, s.intent_us, s.send_deadline_us, s.input_file_id, s.text_left, s.next_look_us, s.obstacle,
  (SELECT MAX(l.vendor) FROM result_lines l WHERE l.job_id = i.job_id AND l.work_id = i.work_id) AS vendor,
  CASE WHEN EXISTS (SELECT 1 FROM submissions n WHERE n.job_id = s.job_id AND n.attempt > s.attempt) THEN 0 ELSE 1 END AS latest
FROM items i
JOIN works w ON w.work_id = i.work_id
JOIN jobs j ON j.job_id = i.job_id
JOIN boundaries b ON b.boundary_id = j.boundary_id
LEFT JOIN submissions s ON s.job_id = i.job_id AND (i.outcome IS NULL OR i.outcome <> 'not_sent' OR s.intent_us < i.decided_us)
WHERE w.report_id = $1
ORDER BY i.work_id, j.created_us, j.job_id, s.attempt

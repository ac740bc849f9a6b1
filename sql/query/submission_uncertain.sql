-- The open submission of a job.
SELECT s.submission_id, s.job_id, s.attempt, s.line_count, s.manifest_mac, s.intent_us, s.send_deadline_us, s.account, s.input_file_id, s.body_bytes, s.body_mac,
  s.looks, s.fenced_us, s.obstacle, j.policy_id, j.policy_version
FROM submissions AS s JOIN jobs AS j ON j.job_id = s.job_id
WHERE s.job_id = $1 AND s.outcome IS NULL

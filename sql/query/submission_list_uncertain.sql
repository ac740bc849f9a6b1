-- Submissions of unknown outcome for which a job may have been asked for, that
-- are due to be looked for, oldest first.
SELECT s.submission_id, s.job_id, s.attempt, s.line_count, s.manifest_mac, s.intent_us, s.send_deadline_us, s.account, s.input_file_id, s.body_bytes, s.body_mac,
  s.looks, s.fenced_us, s.obstacle, j.policy_id, j.policy_version
FROM submissions AS s JOIN jobs AS j ON j.job_id = s.job_id
WHERE s.outcome IS NULL AND s.body_mac IS NOT NULL AND s.send_deadline_us <= $1 AND COALESCE(s.next_look_us, 0) <= $1
ORDER BY s.intent_us, s.submission_id
LIMIT $2

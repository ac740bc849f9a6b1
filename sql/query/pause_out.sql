-- What is out in scope $1 at $3: submissions without an outcome, then jobs that the
-- provider has or of which calls may be on their way (item_count says how many; one
-- whose claim is over is nobody's), oldest first and at most $2 of each, with how many
-- there are. It is one statement, so that a submission that becomes a job meanwhile is
-- seen as the one or the other.
WITH away AS (
  SELECT 0 AS sent, j.job_id, j.policy_id, j.boundary_id, j.item_count, j.provider_job_id, s.submission_id, s.intent_us AS since_us,
    s.send_deadline_us, s.input_file_id
  FROM submissions s JOIN jobs j ON j.job_id = s.job_id
  WHERE s.outcome IS NULL
  UNION ALL
  SELECT 1, job_id, policy_id, boundary_id, item_count, provider_job_id, NULL, submitted_us, NULL, NULL
  FROM jobs WHERE state = 'submitted' AND called = 0
  UNION ALL
  SELECT 1, j.job_id, j.policy_id, j.boundary_id, COUNT(*), j.provider_job_id, NULL, j.submitted_us, NULL, NULL
  FROM calls c JOIN jobs j ON j.job_id = c.job_id
  WHERE c.state = 'claimed' AND c.next_call_us > $3 AND j.state = 'submitted'
  GROUP BY j.job_id, j.policy_id, j.boundary_id, j.provider_job_id, j.submitted_us
), ranked AS (
  SELECT a.sent, a.job_id, a.item_count, a.provider_job_id, a.submission_id, a.since_us, a.send_deadline_us, a.input_file_id,
    ROW_NUMBER() OVER (PARTITION BY a.sent ORDER BY a.since_us, a.job_id) AS nth,
    COUNT(*) OVER (PARTITION BY a.sent) AS total
  FROM away a JOIN boundaries b ON b.boundary_id = a.boundary_id
  WHERE $1 IN ('all', 'account:' || b.account, 'policy:' || a.policy_id)
)
SELECT sent, job_id, item_count, provider_job_id, submission_id, since_us, send_deadline_us, input_file_id, total
FROM ranked WHERE nth <= $2 ORDER BY sent, nth

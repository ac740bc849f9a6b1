-- One job, by its id or the provider's; $2 is the present.
SELECT j.job_id, j.state, j.policy_id, j.policy_version, b.processor, b.account, b.host, b.region, j.item_count, j.content_bytes, j.provider_job_id, j.provider_status, j.called,
  j.provider_total, j.provider_completed, j.provider_failed, j.created_us, j.submitted_us, j.next_submit_us, CASE WHEN j.state = 'ready' THEN j.waits_for END AS waits_for, j.next_poll_us, j.ended_us, j.consumed_us,
  (SELECT COUNT(*) FROM submissions s WHERE s.job_id = j.job_id AND s.outcome IS NULL AND s.body_mac IS NOT NULL AND s.send_deadline_us <= $2) AS uncertain
FROM jobs j JOIN boundaries b ON b.boundary_id = j.boundary_id
WHERE j.job_id = $1 OR j.provider_job_id = $1
ORDER BY j.created_us DESC, j.job_id DESC LIMIT 1

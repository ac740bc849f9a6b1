-- What people and reports read: real timestamps and JSON, no text and no keys.
-- The views are the public contract of the ledger, the tables are not. Columns
-- are only ever added.
-- +goose Up

-- One row for each accepted report, with its current revision and the record that stands for it.
CREATE VIEW v_reports AS
SELECT
  r.report_id,
  r.tenant_id,
  r.source_system,
  r.external_id,
  r.current_revision,
  v.urgent,
  to_timestamp(r.created_us / 1000000.0) AS first_accepted_at,
  to_timestamp(v.accepted_us / 1000000.0) AS accepted_at,
  CASE WHEN h.report_id IS NOT NULL THEN 'held' WHEN w.work_id IS NULL THEN 'unaccounted' WHEN w.stage = 'pending' THEN 'accepted'
    WHEN w.stage = 'collected' AND j.state IN ('submitted', 'ended') THEN j.state ELSE w.stage END AS stage,
  w.work_id,
  w.policy_id,
  w.policy_version,
  to_timestamp(w.due_us / 1000000.0) AS due_at,
  j.job_id,
  s.revision AS record_revision,
  s.kind AS record_kind,
  s.label,
  s.reason,
  s.human_state,
  to_timestamp(s.created_us / 1000000.0) AS recorded_at
FROM reports r
JOIN revisions v ON v.report_id = r.report_id AND v.revision = r.current_revision
LEFT JOIN holds h ON h.report_id = r.report_id AND h.revision = r.current_revision
LEFT JOIN works w ON w.report_id = r.report_id AND w.revision = r.current_revision AND w.disposition = 'live'
LEFT JOIN items i ON i.work_id = w.work_id AND i.outcome IS NULL
LEFT JOIN jobs j ON j.job_id = i.job_id
LEFT JOIN review_records s ON s.report_id = r.report_id AND s.authoritative = 1;
COMMENT ON VIEW v_reports IS 'One row for each accepted report, with its current revision and the record that stands for it.';
COMMENT ON COLUMN v_reports.report_id IS 'id of the report, a keyed hash of tenant, source system and external id';
COMMENT ON COLUMN v_reports.tenant_id IS 'tenant';
COMMENT ON COLUMN v_reports.source_system IS 'system that delivered it';
COMMENT ON COLUMN v_reports.external_id IS 'its id in that system';
COMMENT ON COLUMN v_reports.current_revision IS 'highest accepted revision';
COMMENT ON COLUMN v_reports.urgent IS '1 if the source marked the current revision as urgent';
COMMENT ON COLUMN v_reports.first_accepted_at IS 'when its first revision was accepted';
COMMENT ON COLUMN v_reports.accepted_at IS 'when the current revision was accepted';
COMMENT ON COLUMN v_reports.stage IS 'stage of the current revision: held, accepted, collected, submitted, ended, extracted, recorded, unaccounted';
COMMENT ON COLUMN v_reports.work_id IS 'the current revision''s extraction';
COMMENT ON COLUMN v_reports.policy_id IS 'policy that it was accepted under';
COMMENT ON COLUMN v_reports.policy_version IS 'version of that policy';
COMMENT ON COLUMN v_reports.due_at IS 'when a person must see it at the latest';
COMMENT ON COLUMN v_reports.job_id IS 'job that the current revision is in, while it is in one';
COMMENT ON COLUMN v_reports.record_revision IS 'revision that the standing record is about';
COMMENT ON COLUMN v_reports.record_kind IS 'classified or unclassified';
COMMENT ON COLUMN v_reports.label IS 'label of the standing record';
COMMENT ON COLUMN v_reports.reason IS 'why there is no label';
COMMENT ON COLUMN v_reports.human_state IS 'queued, claimed or decided';
COMMENT ON COLUMN v_reports.recorded_at IS 'when the standing record was written';

-- One row for each provider batch job.
CREATE VIEW v_jobs AS
SELECT
  j.job_id,
  j.state,
  j.policy_id,
  j.policy_version,
  b.processor,
  b.account,
  b.host,
  b.region,
  j.item_count AS items,
  j.provider_job_id,
  j.provider_status,
  j.provider_total,
  j.provider_completed,
  j.provider_failed,
  (SELECT COUNT(*) FROM submissions s WHERE s.job_id = j.job_id) AS submissions,
  (SELECT COUNT(*) FROM submissions s WHERE s.job_id = j.job_id AND s.outcome IS NULL) AS open_submissions,
  to_timestamp(j.created_us / 1000000.0) AS created_at,
  to_timestamp(j.submitted_us / 1000000.0) AS submitted_at,
  to_timestamp(j.next_submit_us / 1000000.0) AS next_submit_at,
  to_timestamp(j.next_poll_us / 1000000.0) AS next_poll_at,
  to_timestamp(j.ended_us / 1000000.0) AS ended_at,
  to_timestamp(j.consumed_us / 1000000.0) AS consumed_at
FROM jobs j JOIN boundaries b ON b.boundary_id = j.boundary_id;
COMMENT ON VIEW v_jobs IS 'One row for each provider batch job.';
COMMENT ON COLUMN v_jobs.job_id IS 'id of the job';
COMMENT ON COLUMN v_jobs.state IS 'planning, ready, submitted, ended, consumed or abandoned';
COMMENT ON COLUMN v_jobs.policy_id IS 'policy that its members were accepted under';
COMMENT ON COLUMN v_jobs.policy_version IS 'version of that policy';
COMMENT ON COLUMN v_jobs.processor IS 'processor that it is for';
COMMENT ON COLUMN v_jobs.account IS 'name of the account';
COMMENT ON COLUMN v_jobs.host IS 'host that it is sent to';
COMMENT ON COLUMN v_jobs.region IS 'region of the account';
COMMENT ON COLUMN v_jobs.items IS 'members';
COMMENT ON COLUMN v_jobs.provider_job_id IS 'id of the job at the provider, once it is accepted';
COMMENT ON COLUMN v_jobs.provider_status IS 'the provider''s last word';
COMMENT ON COLUMN v_jobs.provider_total IS 'requests, as the provider counts them';
COMMENT ON COLUMN v_jobs.provider_completed IS 'completed requests, as the provider counts them';
COMMENT ON COLUMN v_jobs.provider_failed IS 'failed requests, as the provider counts them';
COMMENT ON COLUMN v_jobs.submissions IS 'attempts to create the job';
COMMENT ON COLUMN v_jobs.open_submissions IS '1 while a submission has no outcome: nothing is sent for the job';
COMMENT ON COLUMN v_jobs.created_at IS 'when it was planned';
COMMENT ON COLUMN v_jobs.submitted_at IS 'when the provider''s id was recorded';
COMMENT ON COLUMN v_jobs.next_submit_at IS 'when submit may send it';
COMMENT ON COLUMN v_jobs.next_poll_at IS 'when poll asks about it';
COMMENT ON COLUMN v_jobs.ended_at IS 'when the provider was seen to be done';
COMMENT ON COLUMN v_jobs.consumed_at IS 'when every member had an outcome';

-- One row for each report that waits for a person: its standing record, which nobody has decided.
-- Classified or not, a report is in it once at most.
CREATE VIEW v_review_queue AS
SELECT
  s.report_id,
  r.tenant_id,
  r.source_system,
  r.external_id,
  s.revision,
  CASE WHEN s.revision < r.current_revision THEN 1 ELSE 0 END AS stale,
  s.work_id AS review_id,
  s.kind,
  s.label,
  s.reason,
  CAST(s.evidence AS jsonb) AS evidence,
  s.human_state,
  v.urgent,
  to_timestamp(s.created_us / 1000000.0) AS waiting_since
FROM review_records s
JOIN reports r ON r.report_id = s.report_id
JOIN revisions v ON v.report_id = s.report_id AND v.revision = s.revision
WHERE s.authoritative = 1 AND s.human_state <> 'decided';
COMMENT ON VIEW v_review_queue IS 'One row for each report that waits for a person: its standing record, which nobody has decided. Classified or not, a report is in it once at most.';
COMMENT ON COLUMN v_review_queue.report_id IS 'id of the report';
COMMENT ON COLUMN v_review_queue.tenant_id IS 'tenant';
COMMENT ON COLUMN v_review_queue.source_system IS 'system that delivered it';
COMMENT ON COLUMN v_review_queue.external_id IS 'its id in that system';
COMMENT ON COLUMN v_review_queue.revision IS 'revision that the record is about';
COMMENT ON COLUMN v_review_queue.stale IS '1 if a newer revision is accepted and not recorded yet';
COMMENT ON COLUMN v_review_queue.review_id IS 'id of the record';
COMMENT ON COLUMN v_review_queue.kind IS 'classified or unclassified';
COMMENT ON COLUMN v_review_queue.label IS 'label; advice, never a decision';
COMMENT ON COLUMN v_review_queue.reason IS 'why there is no label; never a sign that the text is harmless';
COMMENT ON COLUMN v_review_queue.evidence IS 'positions in the text that the label rests on, as JSON; never the text';
COMMENT ON COLUMN v_review_queue.human_state IS 'queued or claimed';
COMMENT ON COLUMN v_review_queue.urgent IS '1 if the source marked it as urgent';
COMMENT ON COLUMN v_review_queue.waiting_since IS 'when the record was written';

-- One row for each finding, open or resolved.
CREATE VIEW v_findings AS
SELECT
  f.finding_id,
  f.name,
  f.kind,
  f.subject,
  f.severity,
  f.detail,
  to_timestamp(f.opened_us / 1000000.0) AS opened_at,
  to_timestamp(f.last_seen_us / 1000000.0) AS last_seen_at,
  f.seen,
  to_timestamp(f.resolved_us / 1000000.0) AS resolved_at,
  f.resolved_by,
  f.resolution
FROM findings f;
COMMENT ON VIEW v_findings IS 'One row for each finding, open or resolved.';
COMMENT ON COLUMN v_findings.finding_id IS 'id of the finding';
COMMENT ON COLUMN v_findings.name IS 'invariant or event';
COMMENT ON COLUMN v_findings.kind IS 'invariant: the check closes it; event: a person does';
COMMENT ON COLUMN v_findings.subject IS 'what it is about, as kind:id';
COMMENT ON COLUMN v_findings.severity IS 'notice, warning or critical';
COMMENT ON COLUMN v_findings.detail IS 'ids, stages and counts';
COMMENT ON COLUMN v_findings.opened_at IS 'when it was first seen';
COMMENT ON COLUMN v_findings.last_seen_at IS 'when it was last seen';
COMMENT ON COLUMN v_findings.seen IS 'how often it was seen';
COMMENT ON COLUMN v_findings.resolved_at IS 'when it was closed; NULL while open';
COMMENT ON COLUMN v_findings.resolved_by IS 'who closed it';
COMMENT ON COLUMN v_findings.resolution IS 'why it was closed';

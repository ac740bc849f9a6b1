-- What people and reports read: real timestamps and JSON, no text and no keys.
-- The views are the public contract of the ledger, the tables are not. Columns
-- are only ever added.
-- Timestamps are ISO 8601 in UTC with microseconds.
-- +goose Up

-- One row for each accepted report, with its current revision and the record that stands for it.
CREATE VIEW v_reports AS
SELECT
  r.report_id, -- id of the report, a keyed hash of tenant, source system and external id
  r.tenant_id, -- tenant
  r.source_system, -- system that delivered it
  r.external_id, -- its id in that system
  r.current_revision, -- highest accepted revision
  v.urgent, -- 1 if the source marked the current revision as urgent
  -- when its first revision was accepted
  strftime('%Y-%m-%dT%H:%M:%S', r.created_us / 1000000, 'unixepoch') || '.' || printf('%06d', r.created_us % 1000000) || 'Z' AS first_accepted_at,
  -- when the current revision was accepted
  strftime('%Y-%m-%dT%H:%M:%S', v.accepted_us / 1000000, 'unixepoch') || '.' || printf('%06d', v.accepted_us % 1000000) || 'Z' AS accepted_at,
  -- stage of the current revision: held, accepted, collected, submitted, ended, extracted, recorded, unaccounted
  CASE WHEN h.report_id IS NOT NULL THEN 'held' WHEN w.work_id IS NULL THEN 'unaccounted' WHEN w.stage = 'pending' THEN 'accepted'
    WHEN w.stage = 'collected' AND j.state IN ('submitted', 'ended') THEN j.state ELSE w.stage END AS stage,
  w.work_id, -- the current revision's extraction
  w.policy_id, -- policy that it was accepted under
  w.policy_version, -- version of that policy
  -- when a person must see it at the latest
  strftime('%Y-%m-%dT%H:%M:%S', w.due_us / 1000000, 'unixepoch') || '.' || printf('%06d', w.due_us % 1000000) || 'Z' AS due_at,
  j.job_id, -- job that the current revision is in, while it is in one
  s.revision AS record_revision, -- revision that the standing record is about
  s.kind AS record_kind, -- classified or unclassified
  s.label, -- label of the standing record
  s.reason, -- why there is no label
  s.human_state, -- queued, claimed or decided
  -- when the standing record was written
  strftime('%Y-%m-%dT%H:%M:%S', s.created_us / 1000000, 'unixepoch') || '.' || printf('%06d', s.created_us % 1000000) || 'Z' AS recorded_at
FROM reports r
JOIN revisions v ON v.report_id = r.report_id AND v.revision = r.current_revision
LEFT JOIN holds h ON h.report_id = r.report_id AND h.revision = r.current_revision
LEFT JOIN works w ON w.report_id = r.report_id AND w.revision = r.current_revision AND w.disposition = 'live'
LEFT JOIN items i ON i.work_id = w.work_id AND i.outcome IS NULL
LEFT JOIN jobs j ON j.job_id = i.job_id
LEFT JOIN review_records s ON s.report_id = r.report_id AND s.authoritative = 1;

-- One row for each provider batch job.
CREATE VIEW v_jobs AS
SELECT
  j.job_id, -- id of the job
  j.state, -- planning, ready, submitted, ended, consumed or abandoned
  j.policy_id, -- policy that its members were accepted under
  j.policy_version, -- version of that policy
  b.processor, -- processor that it is for
  b.account, -- name of the account
  b.host, -- host that it is sent to
  b.region, -- region of the account
  j.item_count AS items, -- members
  j.provider_job_id, -- id of the job at the provider, once it is accepted
  j.provider_status, -- the provider's last word
  j.provider_total, -- requests, as the provider counts them
  j.provider_completed, -- completed requests, as the provider counts them
  j.provider_failed, -- failed requests, as the provider counts them
  (SELECT COUNT(*) FROM submissions s WHERE s.job_id = j.job_id) AS submissions, -- attempts to create the job
  -- 1 while a submission has no outcome: nothing is sent for the job
  (SELECT COUNT(*) FROM submissions s WHERE s.job_id = j.job_id AND s.outcome IS NULL) AS open_submissions,
  -- when it was planned
  strftime('%Y-%m-%dT%H:%M:%S', j.created_us / 1000000, 'unixepoch') || '.' || printf('%06d', j.created_us % 1000000) || 'Z' AS created_at,
  -- when the provider's id was recorded
  strftime('%Y-%m-%dT%H:%M:%S', j.submitted_us / 1000000, 'unixepoch') || '.' || printf('%06d', j.submitted_us % 1000000) || 'Z' AS submitted_at,
  -- when submit may send it
  strftime('%Y-%m-%dT%H:%M:%S', j.next_submit_us / 1000000, 'unixepoch') || '.' || printf('%06d', j.next_submit_us % 1000000) || 'Z' AS next_submit_at,
  -- when poll asks about it
  strftime('%Y-%m-%dT%H:%M:%S', j.next_poll_us / 1000000, 'unixepoch') || '.' || printf('%06d', j.next_poll_us % 1000000) || 'Z' AS next_poll_at,
  -- when the provider was seen to be done
  strftime('%Y-%m-%dT%H:%M:%S', j.ended_us / 1000000, 'unixepoch') || '.' || printf('%06d', j.ended_us % 1000000) || 'Z' AS ended_at,
  -- when every member had an outcome
  strftime('%Y-%m-%dT%H:%M:%S', j.consumed_us / 1000000, 'unixepoch') || '.' || printf('%06d', j.consumed_us % 1000000) || 'Z' AS consumed_at
FROM jobs j JOIN boundaries b ON b.boundary_id = j.boundary_id;

-- One row for each report that waits for a person: its standing record, which nobody has decided.
-- Classified or not, a report is in it once at most.
CREATE VIEW v_review_queue AS
SELECT
  s.report_id, -- id of the report
  r.tenant_id, -- tenant
  r.source_system, -- system that delivered it
  r.external_id, -- its id in that system
  s.revision, -- revision that the record is about
  CASE WHEN s.revision < r.current_revision THEN 1 ELSE 0 END AS stale, -- 1 if a newer revision is accepted and not recorded yet
  s.work_id AS review_id, -- id of the record
  s.kind, -- classified or unclassified
  s.label, -- label; advice, never a decision
  s.reason, -- why there is no label; never a sign that the text is harmless
  s.evidence, -- positions in the text that the label rests on, as JSON; never the text
  s.human_state, -- queued or claimed
  v.urgent, -- 1 if the source marked it as urgent
  -- when the record was written
  strftime('%Y-%m-%dT%H:%M:%S', s.created_us / 1000000, 'unixepoch') || '.' || printf('%06d', s.created_us % 1000000) || 'Z' AS waiting_since
FROM review_records s
JOIN reports r ON r.report_id = s.report_id
JOIN revisions v ON v.report_id = s.report_id AND v.revision = s.revision
WHERE s.authoritative = 1 AND s.human_state <> 'decided';

-- One row for each finding, open or resolved.
CREATE VIEW v_findings AS
SELECT
  f.finding_id, -- id of the finding
  f.name, -- invariant or event
  f.kind, -- invariant: the check closes it; event: a person does
  f.subject, -- what it is about, as kind:id
  f.severity, -- notice, warning or critical
  f.detail, -- ids, stages and counts
  -- when it was first seen
  strftime('%Y-%m-%dT%H:%M:%S', f.opened_us / 1000000, 'unixepoch') || '.' || printf('%06d', f.opened_us % 1000000) || 'Z' AS opened_at,
  -- when it was last seen
  strftime('%Y-%m-%dT%H:%M:%S', f.last_seen_us / 1000000, 'unixepoch') || '.' || printf('%06d', f.last_seen_us % 1000000) || 'Z' AS last_seen_at,
  f.seen, -- how often it was seen
  -- when it was closed; NULL while open
  strftime('%Y-%m-%dT%H:%M:%S', f.resolved_us / 1000000, 'unixepoch') || '.' || printf('%06d', f.resolved_us % 1000000) || 'Z' AS resolved_at,
  f.resolved_by, -- who closed it
  f.resolution -- why it was closed
FROM findings f;

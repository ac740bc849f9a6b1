-- The ledger: what was accepted, what was sent where, what came back, and which
-- record stands. Duplicates are impossible by keys and partial unique indexes.
-- Times are Unix microseconds in UTC. Ids are text made by the program.
-- +goose Up

-- One row: which ledger this is. key_check tells a wrong id key before it can
-- give a known report a second identity.
CREATE TABLE ledger (
  one BIGINT PRIMARY KEY CHECK (one = 1),
  ledger_id TEXT NOT NULL CHECK (ledger_id <> ''),
  generation BIGINT NOT NULL CHECK (generation >= 1),
  key_check TEXT NOT NULL CHECK (key_check <> ''),
  created_us BIGINT NOT NULL
);

-- A boundary is one processor account at one host and region under stated terms.
CREATE TABLE boundaries (
  boundary_id TEXT PRIMARY KEY CHECK (boundary_id <> ''),
  processor TEXT NOT NULL CHECK (processor <> ''),
  account TEXT NOT NULL CHECK (account <> ''),
  host TEXT NOT NULL CHECK (host <> ''),
  region TEXT NOT NULL,
  terms TEXT NOT NULL,
  created_us BIGINT NOT NULL
);

CREATE TABLE policy_versions (
  policy_id TEXT NOT NULL CHECK (policy_id <> ''),
  version BIGINT NOT NULL CHECK (version >= 1),
  boundary_id TEXT NOT NULL REFERENCES boundaries (boundary_id),
  spec TEXT NOT NULL,
  spec_mac TEXT NOT NULL CHECK (spec_mac <> ''),
  state TEXT NOT NULL CHECK (state IN ('draft', 'approved', 'revoked')),
  authority TEXT NOT NULL CHECK (authority IN ('highest_applied', 'highest_accepted')),
  on_due TEXT NOT NULL CHECK (on_due IN ('unclassified', 'wait')),
  created_us BIGINT NOT NULL,
  PRIMARY KEY (policy_id, version),
  UNIQUE (policy_id, version, boundary_id)
);

CREATE TABLE policy_decisions (
  policy_id TEXT NOT NULL,
  version BIGINT NOT NULL,
  seq BIGINT NOT NULL CHECK (seq >= 1),
  decision TEXT NOT NULL CHECK (decision IN ('approve', 'revoke')),
  actor TEXT NOT NULL CHECK (actor <> ''),
  reason TEXT NOT NULL CHECK (reason <> ''),
  evidence_ref TEXT NOT NULL,
  spec_mac TEXT NOT NULL,
  decided_us BIGINT NOT NULL,
  PRIMARY KEY (policy_id, version, seq),
  UNIQUE (policy_id, version, decision, actor),
  FOREIGN KEY (policy_id, version) REFERENCES policy_versions (policy_id, version)
);

-- A report is one source identity: (tenant, source system, external id).
-- report_id is a keyed hash of the three.
CREATE TABLE reports (
  report_id TEXT PRIMARY KEY CHECK (report_id <> ''),
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  source_system TEXT NOT NULL CHECK (source_system <> ''),
  external_id TEXT NOT NULL CHECK (external_id <> ''),
  current_revision BIGINT NOT NULL CHECK (current_revision >= 0),
  created_us BIGINT NOT NULL,
  UNIQUE (tenant_id, source_system, external_id),
  UNIQUE (report_id, tenant_id)
);

-- People ask for a report by the id that its source gave it.
CREATE INDEX reports_external ON reports (external_id);

-- content_bytes is the length of the cleaned text as a JSON string, which is
-- what limits are about. media is set where the source sent something else than text.
-- no_text: there is nothing to classify.
CREATE TABLE revisions (
  report_id TEXT NOT NULL REFERENCES reports (report_id),
  revision BIGINT NOT NULL CHECK (revision >= 0),
  content_mac TEXT NOT NULL CHECK (content_mac <> ''),
  mac_key_id TEXT NOT NULL CHECK (mac_key_id <> ''),
  content_bytes BIGINT NOT NULL CHECK (content_bytes >= 0),
  cleaned BIGINT NOT NULL CHECK (cleaned IN (0, 1)),
  urgent BIGINT NOT NULL CHECK (urgent IN (0, 1)),
  media TEXT NOT NULL,
  no_text BIGINT NOT NULL CHECK (no_text IN (0, 1)),
  accepted_us BIGINT NOT NULL,
  PRIMARY KEY (report_id, revision)
);

-- Encrypted report text, the only copy in the ledger.
CREATE TABLE texts (
  report_id TEXT NOT NULL,
  revision BIGINT NOT NULL,
  encrypted BYTEA NOT NULL,
  key_id TEXT NOT NULL CHECK (key_id <> ''),
  PRIMARY KEY (report_id, revision),
  FOREIGN KEY (report_id, revision) REFERENCES revisions (report_id, revision)
);

-- Accepted revisions that have no approved policy yet; a row goes when its work is made.
CREATE TABLE holds (
  report_id TEXT NOT NULL,
  revision BIGINT NOT NULL,
  reason TEXT NOT NULL CHECK (reason IN ('policy_pending')),
  held_us BIGINT NOT NULL,
  PRIMARY KEY (report_id, revision),
  FOREIGN KEY (report_id, revision) REFERENCES revisions (report_id, revision)
);
CREATE INDEX holds_age ON holds (held_us, report_id);

-- One extraction to be done. reason is set when it ends without an artifact.
CREATE TABLE works (
  work_id TEXT PRIMARY KEY CHECK (work_id <> ''),
  tenant_id TEXT NOT NULL,
  report_id TEXT NOT NULL,
  revision BIGINT NOT NULL,
  policy_id TEXT NOT NULL,
  policy_version BIGINT NOT NULL,
  boundary_id TEXT NOT NULL,
  disposition TEXT NOT NULL CHECK (disposition IN ('live', 'superseded', 'withdrawn')),
  stage TEXT NOT NULL CHECK (stage IN ('pending', 'collected', 'extracted', 'recorded')),
  reason TEXT CHECK (reason IN ('no_text', 'audio_only', 'too_large', 'refused', 'blocked_by_provider', 'truncated',
    'invalid_output', 'conflicting_results', 'rejected_by_provider', 'attempts_used_up', 'overdue', 'routed', 'text_unreadable')),
  urgent BIGINT NOT NULL CHECK (urgent IN (0, 1)),
  content_bytes BIGINT NOT NULL CHECK (content_bytes >= 0),
  created_us BIGINT NOT NULL,
  eligible_us BIGINT NOT NULL,
  due_us BIGINT NOT NULL,
  UNIQUE (report_id, revision, policy_id, policy_version),
  UNIQUE (work_id, boundary_id),
  UNIQUE (work_id, report_id, revision),
  FOREIGN KEY (report_id, revision) REFERENCES revisions (report_id, revision),
  FOREIGN KEY (report_id, tenant_id) REFERENCES reports (report_id, tenant_id),
  FOREIGN KEY (policy_id, policy_version, boundary_id) REFERENCES policy_versions (policy_id, version, boundary_id),
  CHECK (reason IS NULL OR stage IN ('extracted', 'recorded'))
);
CREATE UNIQUE INDEX works_one_live ON works (report_id, revision) WHERE disposition = 'live';
CREATE INDEX works_pending ON works (policy_id, policy_version, urgent, created_us, work_id) WHERE stage = 'pending' AND disposition = 'live';
CREATE INDEX works_extracted ON works (created_us, work_id) WHERE stage = 'extracted';
CREATE INDEX works_unfinished ON works (due_us, work_id) WHERE stage IN ('pending', 'collected') AND disposition = 'live';

-- A provider batch job. next_*_us says when the pass of that state may touch it.
CREATE TABLE jobs (
  job_id TEXT PRIMARY KEY CHECK (job_id <> ''),
  policy_id TEXT NOT NULL,
  policy_version BIGINT NOT NULL,
  boundary_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('planning', 'ready', 'submitted', 'ended', 'consumed', 'abandoned')),
  item_count BIGINT NOT NULL CHECK (item_count >= 0),
  content_bytes BIGINT NOT NULL CHECK (content_bytes >= 0),
  account TEXT CHECK (account <> ''),
  provider_job_id TEXT CHECK (provider_job_id <> ''),
  provider_status TEXT,
  provider_total BIGINT,
  provider_completed BIGINT,
  provider_failed BIGINT,
  phase TEXT CHECK (phase IN ('ended', 'invalid')),
  created_us BIGINT NOT NULL,
  next_submit_us BIGINT,
  submitted_us BIGINT,
  next_poll_us BIGINT,
  poll_misses BIGINT NOT NULL DEFAULT 0 CHECK (poll_misses >= 0),
  first_miss_us BIGINT,
  incomplete_us BIGINT,
  expires_us BIGINT,
  ended_us BIGINT,
  next_consume_us BIGINT,
  consumed_us BIGINT,
  UNIQUE (job_id, boundary_id),
  UNIQUE (account, provider_job_id),
  FOREIGN KEY (policy_id, policy_version, boundary_id) REFERENCES policy_versions (policy_id, version, boundary_id),
  CHECK (state IN ('planning', 'abandoned') OR item_count > 0),
  CHECK (state IN ('planning', 'ready', 'abandoned') OR (provider_job_id IS NOT NULL AND account IS NOT NULL)),
  CHECK ((state = 'ready') = (next_submit_us IS NOT NULL)),
  CHECK ((state = 'submitted') = (next_poll_us IS NOT NULL)),
  CHECK ((state = 'ended') = (next_consume_us IS NOT NULL)),
  CHECK ((state IN ('ended', 'consumed')) = (phase IS NOT NULL))
);
CREATE UNIQUE INDEX jobs_one_planning ON jobs (policy_id, policy_version) WHERE state = 'planning';
CREATE INDEX jobs_provider ON jobs (provider_job_id) WHERE provider_job_id IS NOT NULL;
CREATE INDEX jobs_ready ON jobs (next_submit_us, job_id) WHERE state = 'ready';
CREATE INDEX jobs_submitted ON jobs (next_poll_us, job_id) WHERE state = 'submitted';
CREATE INDEX jobs_ended ON jobs (next_consume_us, job_id) WHERE state = 'ended';

-- Members of a job. position orders them; line is their place in the request
-- file, and NULL for one that was not sent.
CREATE TABLE items (
  job_id TEXT NOT NULL,
  work_id TEXT NOT NULL,
  boundary_id TEXT NOT NULL,
  position BIGINT NOT NULL CHECK (position >= 1),
  line BIGINT CHECK (line >= 1),
  outcome TEXT CHECK (outcome IN ('succeeded', 'refused', 'blocked', 'truncated', 'invalid', 'rejected', 'failed', 'denied',
    'out_of_credit', 'expired', 'cancelled', 'not_run', 'missing', 'conflict', 'not_sent')),
  code TEXT NOT NULL DEFAULT '',
  decided_us BIGINT,
  PRIMARY KEY (job_id, work_id),
  UNIQUE (job_id, position),
  UNIQUE (job_id, line),
  FOREIGN KEY (job_id, boundary_id) REFERENCES jobs (job_id, boundary_id),
  FOREIGN KEY (work_id, boundary_id) REFERENCES works (work_id, boundary_id),
  CHECK ((outcome IS NULL) = (decided_us IS NULL))
);
CREATE UNIQUE INDEX items_one_open ON items (work_id) WHERE outcome IS NULL;
CREATE UNIQUE INDEX items_one_success ON items (work_id) WHERE outcome = 'succeeded';
CREATE INDEX items_work ON items (work_id);

-- One attempt to create a job: the intent first, the outcome later. An open row
-- past its send deadline is an uncertain submission. text_left says whether any
-- of its text left this machine; NULL where nobody knows.
-- looks counts the complete listings that showed no job of it; fenced_us is when
-- its input file was deleted, so that a late create fails; obstacle is why the
-- last look proved nothing. next_look_us NULL is at once.
CREATE TABLE submissions (
  submission_id TEXT PRIMARY KEY CHECK (submission_id <> ''),
  job_id TEXT NOT NULL REFERENCES jobs (job_id),
  attempt BIGINT NOT NULL CHECK (attempt >= 1),
  account TEXT NOT NULL CHECK (account <> ''),
  fence BIGINT NOT NULL,
  manifest_mac TEXT NOT NULL CHECK (manifest_mac <> ''),
  line_count BIGINT NOT NULL CHECK (line_count >= 1),
  intent_us BIGINT NOT NULL,
  send_deadline_us BIGINT NOT NULL,
  input_file_id TEXT CHECK (input_file_id <> ''),
  body_bytes BIGINT,
  body_mac TEXT,
  outcome TEXT CHECK (outcome IN ('accepted', 'rejected', 'proven_absent', 'abandoned')),
  evidence TEXT CHECK (evidence <> ''),
  closed_us BIGINT,
  text_left BIGINT CHECK (text_left IN (0, 1)),
  looks BIGINT NOT NULL DEFAULT 0 CHECK (looks >= 0),
  last_look_us BIGINT,
  next_look_us BIGINT,
  fenced_us BIGINT,
  obstacle TEXT CHECK (obstacle <> ''),
  UNIQUE (job_id, attempt),
  CHECK ((outcome IS NULL) = (evidence IS NULL)),
  CHECK ((outcome IS NULL) = (closed_us IS NULL)),
  CHECK (text_left IS NULL OR outcome IS NOT NULL),
  CHECK (text_left IS NULL OR text_left = 1 OR outcome <> 'accepted')
);
CREATE UNIQUE INDEX submissions_one_open ON submissions (job_id) WHERE outcome IS NULL;
CREATE UNIQUE INDEX submissions_one_accepted ON submissions (job_id) WHERE outcome = 'accepted';
CREATE INDEX submissions_open ON submissions (intent_us) WHERE outcome IS NULL;

-- What a finished job left to read. A set is read again from its first byte
-- until it is whole; only a whole set is judged. missing_us is when the
-- provider first did not know the file.
CREATE TABLE result_sets (
  job_id TEXT NOT NULL REFERENCES jobs (job_id),
  channel TEXT NOT NULL CHECK (channel IN ('output', 'error', 'faults')),
  state TEXT NOT NULL CHECK (state IN ('staging', 'whole', 'lost')),
  file_id TEXT CHECK (file_id <> ''),
  line_count BIGINT,
  byte_count BIGINT,
  mac TEXT CHECK (mac <> ''),
  staged_us BIGINT,
  missing_us BIGINT,
  PRIMARY KEY (job_id, channel),
  CHECK ((state = 'whole') = (mac IS NOT NULL)),
  CHECK ((state = 'whole') = (line_count IS NOT NULL))
);

-- Result lines as read, with the answer encrypted. disposition stays 'staged'
-- until the item is judged; an accepted answer then moves to its artifact, so
-- that it stands in the ledger once.
CREATE TABLE result_lines (
  job_id TEXT NOT NULL,
  channel TEXT NOT NULL,
  line BIGINT NOT NULL CHECK (line >= 1),
  work_id TEXT,
  line_mac TEXT NOT NULL CHECK (line_mac <> ''),
  byte_count BIGINT NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('succeeded', 'refused', 'blocked', 'truncated', 'invalid', 'rejected', 'failed', 'denied',
    'out_of_credit', 'expired', 'cancelled', 'not_run', 'unreadable')),
  code TEXT NOT NULL,
  label TEXT,
  evidence TEXT,
  model TEXT NOT NULL,
  input_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  encrypted BYTEA,
  key_id TEXT,
  payload_mac TEXT,
  disposition TEXT NOT NULL CHECK (disposition IN ('staged', 'accepted', 'dup_same', 'dup_conflict', 'unknown_id', 'malformed', 'item_error')),
  PRIMARY KEY (job_id, channel, line),
  FOREIGN KEY (job_id, channel) REFERENCES result_sets (job_id, channel),
  FOREIGN KEY (job_id, work_id) REFERENCES items (job_id, work_id),
  CHECK ((encrypted IS NULL) = (key_id IS NULL)),
  CHECK ((outcome = 'succeeded') = (label IS NOT NULL)),
  CHECK ((outcome = 'succeeded') = (payload_mac IS NOT NULL))
);
CREATE UNIQUE INDEX result_lines_one_accepted ON result_lines (job_id, work_id) WHERE disposition = 'accepted';
CREATE INDEX result_lines_work ON result_lines (job_id, work_id);

-- The validated answer to one work. evidence holds positions in the text, never the text.
CREATE TABLE artifacts (
  work_id TEXT PRIMARY KEY,
  job_id TEXT NOT NULL,
  classifier TEXT NOT NULL CHECK (classifier <> ''),
  model TEXT NOT NULL,
  label TEXT NOT NULL CHECK (label <> ''),
  evidence TEXT NOT NULL,
  encrypted BYTEA NOT NULL,
  key_id TEXT NOT NULL CHECK (key_id <> ''),
  payload_mac TEXT NOT NULL CHECK (payload_mac <> ''),
  input_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  created_us BIGINT NOT NULL,
  FOREIGN KEY (job_id, work_id) REFERENCES items (job_id, work_id)
);

-- What the reviewer's system reads: at most one authoritative record a report.
CREATE TABLE review_records (
  work_id TEXT PRIMARY KEY,
  report_id TEXT NOT NULL,
  revision BIGINT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('classified', 'unclassified')),
  reason TEXT CHECK (reason <> ''),
  label TEXT CHECK (label <> ''),
  evidence TEXT,
  artifact_id TEXT REFERENCES artifacts (work_id),
  authoritative BIGINT NOT NULL CHECK (authoritative IN (0, 1)),
  human_state TEXT NOT NULL CHECK (human_state IN ('queued', 'claimed', 'decided')),
  created_us BIGINT NOT NULL,
  FOREIGN KEY (work_id, report_id, revision) REFERENCES works (work_id, report_id, revision),
  CHECK ((kind = 'classified') = (label IS NOT NULL)),
  CHECK ((kind = 'classified') = (artifact_id IS NOT NULL)),
  CHECK ((kind = 'unclassified') = (reason IS NOT NULL)),
  CHECK (artifact_id IS NULL OR artifact_id = work_id)
);
CREATE UNIQUE INDEX review_records_one_authoritative ON review_records (report_id) WHERE authoritative = 1;
CREATE INDEX review_records_queue ON review_records (created_us, work_id) WHERE authoritative = 1 AND human_state <> 'decided';

-- This work's outcome was applied. Written with its record, in one transaction.
CREATE TABLE processed_markers (
  work_id TEXT PRIMARY KEY REFERENCES review_records (work_id),
  decision TEXT NOT NULL CHECK (decision IN ('authoritative', 'history')),
  fence BIGINT NOT NULL,
  processed_us BIGINT NOT NULL
);

-- next_due_us is the truth about a schedule: whichever process sees that it has
-- come makes a slot of it. A slot is one run: the instant that it is for, how many
-- earlier ones were missed and are done with it, and how often it was begun. It is
-- begun again while its passes are not done, at retry_us after a run that did not
-- do them, and at once where the process died, until the next slot takes its place.
CREATE TABLE schedules (
  schedule TEXT PRIMARY KEY CHECK (schedule <> ''),
  expression TEXT NOT NULL CHECK (expression <> ''),
  zone TEXT NOT NULL CHECK (zone <> ''),
  next_due_us BIGINT NOT NULL
);

CREATE TABLE slots (
  schedule TEXT NOT NULL REFERENCES schedules (schedule),
  slot_us BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  missed BIGINT NOT NULL DEFAULT 0 CHECK (missed >= 0),
  begun BIGINT NOT NULL DEFAULT 1 CHECK (begun >= 1),
  started_us BIGINT NOT NULL,
  retry_us BIGINT,
  finished_us BIGINT,
  outcome TEXT CHECK (outcome IN ('done', 'failed', 'held', 'interrupted')),
  PRIMARY KEY (schedule, slot_us),
  CHECK (retry_us IS NULL OR finished_us IS NULL),
  CHECK ((outcome IS NULL) = (retry_us IS NULL AND finished_us IS NULL)),
  CHECK (outcome <> 'done' OR finished_us IS NOT NULL)
);
CREATE UNIQUE INDEX slots_one_unfinished ON slots (schedule) WHERE finished_us IS NULL;

-- Jobs over a file without any request, which fail at once: a listing that shows
-- one of them reaches to when it was made.
CREATE TABLE probes (
  account TEXT NOT NULL CHECK (account <> ''),
  provider_job_id TEXT NOT NULL CHECK (provider_job_id <> ''),
  made_us BIGINT NOT NULL,
  PRIMARY KEY (account, provider_job_id)
);

-- What an account holds of ours and should not: jobs and request files that no
-- submission stands for. A row stays, so that what is gone is not asked for again.
CREATE TABLE surplus_objects (
  account TEXT NOT NULL CHECK (account <> ''),
  kind TEXT NOT NULL CHECK (kind IN ('job', 'file')),
  object_id TEXT NOT NULL CHECK (object_id <> ''),
  submission_id TEXT CHECK (submission_id <> ''),
  why TEXT NOT NULL CHECK (why <> ''),
  found_us BIGINT NOT NULL,
  gone_us BIGINT,
  PRIMARY KEY (account, kind, object_id)
);

-- Who runs a pass. Rows named gate:<stage> carry no holder: an intent or an
-- apply reads its gate, a pause locks it, so that the one waits for the other.
CREATE TABLE leases (
  name TEXT PRIMARY KEY CHECK (name <> ''),
  holder TEXT NOT NULL,
  fence BIGINT NOT NULL CHECK (fence >= 0),
  expires_us BIGINT NOT NULL
);

CREATE TABLE pauses (
  pause_id TEXT PRIMARY KEY CHECK (pause_id <> ''),
  scope TEXT NOT NULL CHECK (scope <> ''),
  stage TEXT NOT NULL CHECK (stage IN ('intake', 'dispatch', 'poll', 'apply')),
  set_by TEXT NOT NULL CHECK (set_by <> ''),
  reason TEXT NOT NULL CHECK (reason <> ''),
  set_us BIGINT NOT NULL,
  lifted_by TEXT CHECK (lifted_by <> ''),
  lift_reason TEXT CHECK (lift_reason <> ''),
  lifted_us BIGINT,
  CHECK ((lifted_us IS NULL) = (lifted_by IS NULL)),
  CHECK ((lifted_us IS NULL) = (lift_reason IS NULL))
);
CREATE UNIQUE INDEX pauses_one_active ON pauses (scope, stage) WHERE lifted_us IS NULL;

-- Open breaches. kind 'invariant' rows open and resolve by check; kind 'event'
-- rows are opened by a pass and resolved by a person.
CREATE TABLE findings (
  finding_id TEXT PRIMARY KEY CHECK (finding_id <> ''),
  name TEXT NOT NULL CHECK (name <> ''),
  kind TEXT NOT NULL CHECK (kind IN ('invariant', 'event')),
  subject TEXT NOT NULL CHECK (subject <> ''),
  severity TEXT NOT NULL CHECK (severity IN ('notice', 'warning', 'critical')),
  detail TEXT NOT NULL,
  opened_us BIGINT NOT NULL,
  last_seen_us BIGINT NOT NULL,
  seen BIGINT NOT NULL CHECK (seen >= 1),
  resolved_us BIGINT,
  resolved_by TEXT CHECK (resolved_by <> ''),
  resolution TEXT CHECK (resolution <> ''),
  CHECK ((resolved_us IS NULL) = (resolution IS NULL)),
  CHECK ((resolved_us IS NULL) = (resolved_by IS NULL))
);
CREATE UNIQUE INDEX findings_one_open ON findings (name, subject) WHERE resolved_us IS NULL;

-- Evidence of what was done, written in the transaction that did it. op_id is
-- the token by which a COMMIT of unknown outcome is read back.
CREATE TABLE audit_events (
  seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at_us BIGINT NOT NULL,
  actor TEXT NOT NULL CHECK (actor <> ''),
  kind TEXT NOT NULL CHECK (kind <> ''),
  subject TEXT NOT NULL,
  detail TEXT NOT NULL,
  op_id TEXT UNIQUE CHECK (op_id <> '')
);
-- +goose StatementBegin
CREATE FUNCTION audit_events_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'audit_events is append-only' USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_events_no_change BEFORE UPDATE OR DELETE ON audit_events FOR EACH ROW EXECUTE FUNCTION audit_events_append_only();
CREATE TRIGGER audit_events_no_truncate BEFORE TRUNCATE ON audit_events FOR EACH STATEMENT EXECUTE FUNCTION audit_events_append_only();

INSERT INTO leases (name, holder, fence, expires_us) VALUES ('gate:intake', '', 0, 0), ('gate:dispatch', '', 0, 0), ('gate:poll', '', 0, 0), ('gate:apply', '', 0, 0), ('gate:alone', '', 0, 0);

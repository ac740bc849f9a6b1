-- The lane for processors without jobs: each text of such a job is asked about
-- in a call of its own. called: the pass call moves the job on, and next_poll_us
-- is when it looks at it; nothing is polled.
-- +goose Up
ALTER TABLE jobs ADD COLUMN called BIGINT NOT NULL DEFAULT 0 CHECK (called IN (0, 1));

-- One call: a segment of the text of a member, which is asked about until it has
-- an answer. segments is NULL until the text was split for the first answer;
-- attempts counts the calls that were, or may have been, made, and faults those
-- that say something against this text or this moment. next_call_us is when a due
-- call may be made, and when a claimed one that left no trace is due again.
CREATE TABLE calls (
  job_id TEXT NOT NULL,
  work_id TEXT NOT NULL,
  segment BIGINT NOT NULL CHECK (segment >= 1),
  segments BIGINT CHECK (segments >= segment),
  line BIGINT NOT NULL CHECK (line >= 1),
  state TEXT NOT NULL CHECK (state IN ('due', 'claimed', 'done')),
  attempts BIGINT NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  faults BIGINT NOT NULL DEFAULT 0 CHECK (faults >= 0),
  next_call_us BIGINT,
  outcome TEXT CHECK (outcome IN ('answered', 'refused', 'blocked', 'truncated', 'bad_shape', 'rejected', 'failed', 'denied',
    'out_of_credit', 'expired', 'cancelled', 'not_run')),
  code TEXT NOT NULL DEFAULT '',
  model TEXT NOT NULL DEFAULT '',
  encrypted BYTEA,
  key_id TEXT CHECK (key_id <> ''),
  input_tokens BIGINT NOT NULL DEFAULT 0 CHECK (input_tokens >= 0),
  output_tokens BIGINT NOT NULL DEFAULT 0 CHECK (output_tokens >= 0),
  called_us BIGINT,
  PRIMARY KEY (job_id, work_id, segment),
  FOREIGN KEY (job_id, work_id) REFERENCES items (job_id, work_id),
  CHECK ((state = 'done') = (outcome IS NOT NULL)),
  CHECK ((state = 'done') = (next_call_us IS NULL)),
  CHECK ((encrypted IS NULL) = (key_id IS NULL)),
  CHECK (encrypted IS NULL OR outcome = 'answered'),
  CHECK (segment = 1 OR segments IS NOT NULL)
);
CREATE INDEX calls_due ON calls (job_id, next_call_us, line, segment) WHERE state <> 'done';
CREATE INDEX calls_claimed ON calls (next_call_us) WHERE state = 'claimed';

-- How fast an account is called, for all processes together: how many calls may
-- be made at once, since when that is so, and the instant before which the
-- processor wants none. refusals counts how often in a row it said so.
CREATE TABLE rates (
  account TEXT PRIMARY KEY CHECK (account <> ''),
  tokens BIGINT NOT NULL CHECK (tokens >= 0),
  refilled_us BIGINT NOT NULL,
  not_before_us BIGINT,
  refusals BIGINT NOT NULL CHECK (refusals >= 0)
);

-- What a submission may take, and what its items cost. Money is in millionths of
-- a unit of currency, which is that of the price at the intent. No price: NULL,
-- and nothing is known of money. Estimates are NULL for what was sent before
-- there were any, and for what was adopted.
-- cost_micros is the sum over the items whose usage the provider told, each
-- counted once; cost_unknown is how many may have cost something it did not tell.
-- waits_for is the limit of its account that a ready job was put off for, and
-- waits_since_us since when it has waited for any.
-- +goose Up
ALTER TABLE submissions ADD COLUMN estimated_input_tokens INTEGER CHECK (estimated_input_tokens >= 0);
ALTER TABLE submissions ADD COLUMN max_output_tokens INTEGER CHECK (max_output_tokens >= 0);
ALTER TABLE submissions ADD COLUMN estimated_micros INTEGER CHECK (estimated_micros >= 0);
ALTER TABLE submissions ADD COLUMN input_price_micros INTEGER CHECK (input_price_micros >= 0);
ALTER TABLE submissions ADD COLUMN output_price_micros INTEGER CHECK (output_price_micros >= 0);
ALTER TABLE submissions ADD COLUMN currency TEXT CHECK (currency <> '');
ALTER TABLE submissions ADD COLUMN input_tokens INTEGER NOT NULL DEFAULT 0 CHECK (input_tokens >= 0);
ALTER TABLE submissions ADD COLUMN output_tokens INTEGER NOT NULL DEFAULT 0 CHECK (output_tokens >= 0);
ALTER TABLE submissions ADD COLUMN cost_micros INTEGER NOT NULL DEFAULT 0 CHECK (cost_micros >= 0);
ALTER TABLE submissions ADD COLUMN cost_unknown INTEGER NOT NULL DEFAULT 0 CHECK (cost_unknown >= 0);
CREATE INDEX submissions_intent ON submissions (intent_us);
ALTER TABLE items ADD COLUMN cost_micros INTEGER CHECK (cost_micros >= 0);
ALTER TABLE jobs ADD COLUMN waits_for TEXT CHECK (waits_for IN ('creates_per_minute', 'enqueued_tokens', 'open_jobs'));
ALTER TABLE jobs ADD COLUMN waits_since_us INTEGER;
INSERT INTO leases (name, holder, fence, expires_us) VALUES ('gate:limit', '', 0, 0);

-- One row for each provider batch job; it gains columns at its end.
DROP VIEW v_jobs;
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
  strftime('%Y-%m-%dT%H:%M:%S', j.consumed_us / 1000000, 'unixepoch') || '.' || printf('%06d', j.consumed_us % 1000000) || 'Z' AS consumed_at,
  -- limit of its account that it was put off for: open_jobs, enqueued_tokens or creates_per_minute; NULL when it waits for none
  j.waits_for,
  -- what its last submission may cost, in millionths of currency; NULL without a price
  (SELECT s.estimated_micros FROM submissions s WHERE s.job_id = j.job_id ORDER BY s.attempt DESC LIMIT 1) AS estimated_micros,
  -- what its items cost by the provider's usage, in millionths of currency
  CAST((SELECT SUM(s.cost_micros) FROM submissions s WHERE s.job_id = j.job_id) AS BIGINT) AS cost_micros,
  -- currency of both
  (SELECT s.currency FROM submissions s WHERE s.job_id = j.job_id ORDER BY s.attempt DESC LIMIT 1) AS currency
FROM jobs j JOIN boundaries b ON b.boundary_id = j.boundary_id;

-- What a submission may take, and what its items cost. Money is in millionths of
-- a unit of currency, which is that of the price at the intent. No price: NULL,
-- and nothing is known of money. Estimates are NULL for what was sent before
-- there were any, and for what was adopted.
-- cost_micros is the sum over the items whose usage the provider told, each
-- counted once; cost_unknown is how many may have cost something it did not tell.
-- waits_for is the limit of its account that a ready job was put off for, and
-- waits_since_us since when it has waited for any.
-- +goose Up
ALTER TABLE submissions ADD COLUMN estimated_input_tokens BIGINT CHECK (estimated_input_tokens >= 0);
ALTER TABLE submissions ADD COLUMN max_output_tokens BIGINT CHECK (max_output_tokens >= 0);
ALTER TABLE submissions ADD COLUMN estimated_micros BIGINT CHECK (estimated_micros >= 0);
ALTER TABLE submissions ADD COLUMN input_price_micros BIGINT CHECK (input_price_micros >= 0);
ALTER TABLE submissions ADD COLUMN output_price_micros BIGINT CHECK (output_price_micros >= 0);
ALTER TABLE submissions ADD COLUMN currency TEXT CHECK (currency <> '');
ALTER TABLE submissions ADD COLUMN input_tokens BIGINT NOT NULL DEFAULT 0 CHECK (input_tokens >= 0);
ALTER TABLE submissions ADD COLUMN output_tokens BIGINT NOT NULL DEFAULT 0 CHECK (output_tokens >= 0);
ALTER TABLE submissions ADD COLUMN cost_micros BIGINT NOT NULL DEFAULT 0 CHECK (cost_micros >= 0);
ALTER TABLE submissions ADD COLUMN cost_unknown BIGINT NOT NULL DEFAULT 0 CHECK (cost_unknown >= 0);
CREATE INDEX submissions_intent ON submissions (intent_us);
ALTER TABLE items ADD COLUMN cost_micros BIGINT CHECK (cost_micros >= 0);
ALTER TABLE jobs ADD COLUMN waits_for TEXT CHECK (waits_for IN ('creates_per_minute', 'enqueued_tokens', 'open_jobs'));
ALTER TABLE jobs ADD COLUMN waits_since_us BIGINT;
INSERT INTO leases (name, holder, fence, expires_us) VALUES ('gate:limit', '', 0, 0);

-- One row for each provider batch job; it gains columns at its end.
CREATE OR REPLACE VIEW v_jobs AS
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
  to_timestamp(j.consumed_us / 1000000.0) AS consumed_at,
  j.waits_for,
  (SELECT s.estimated_micros FROM submissions s WHERE s.job_id = j.job_id ORDER BY s.attempt DESC LIMIT 1) AS estimated_micros,
  CAST((SELECT SUM(s.cost_micros) FROM submissions s WHERE s.job_id = j.job_id) AS BIGINT) AS cost_micros,
  (SELECT s.currency FROM submissions s WHERE s.job_id = j.job_id ORDER BY s.attempt DESC LIMIT 1) AS currency
FROM jobs j JOIN boundaries b ON b.boundary_id = j.boundary_id;
COMMENT ON COLUMN v_jobs.waits_for IS 'limit of its account that it was put off for: open_jobs, enqueued_tokens or creates_per_minute; NULL when it waits for none';
COMMENT ON COLUMN v_jobs.estimated_micros IS 'what its last submission may cost, in millionths of currency; NULL without a price';
COMMENT ON COLUMN v_jobs.cost_micros IS 'what its items cost by the provider''s usage, in millionths of currency';
COMMENT ON COLUMN v_jobs.currency IS 'currency of both';

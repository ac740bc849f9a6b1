-- When a provider's event may bring the next poll of a job nearer.
-- pull_from_us is the earliest instant to which that poll may be pulled forward:
-- some time behind the last answer. NULL until there is an answer, while the job
-- is asked about, and after a look that failed; then the poll stays where it is.
-- +goose Up
ALTER TABLE jobs ADD COLUMN pull_from_us BIGINT;

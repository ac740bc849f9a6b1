-- How often in a row the provider did not know a set's file. One answer, or two
-- at any distance, prove nothing.
-- +goose Up
ALTER TABLE result_sets ADD COLUMN misses INTEGER NOT NULL DEFAULT 0 CHECK (misses >= 0);

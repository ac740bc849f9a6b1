-- What earlier readings of a result file have shown: how often in a row the
-- provider did not know it, since one answer, or two at any distance, prove
-- nothing; and the most lines that one of them had.
-- +goose Up
ALTER TABLE result_sets ADD COLUMN misses BIGINT NOT NULL DEFAULT 0 CHECK (misses >= 0);
ALTER TABLE result_sets ADD COLUMN most_lines BIGINT NOT NULL DEFAULT 0 CHECK (most_lines >= 0);

-- Answers of a vendor or a model that nobody approved: a word for what became of
-- the item, one for why a person gets the report, and who served a line.
-- A longer list in a CHECK changes no row, so that the text of a table is all
-- there is to change; SQLite has no statement for it. The next statement has each
-- connection read the schema again.
-- +goose Up
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''text_unreadable'')', '''text_unreadable'', ''unapproved_processor'')') WHERE type = 'table' AND name = 'works';
UPDATE sqlite_schema SET sql = replace(sql, '''not_sent'')', '''not_sent'', ''unapproved'')') WHERE type = 'table' AND name = 'items';
UPDATE sqlite_schema SET sql = replace(sql, '''unreadable'')', '''unreadable'', ''unapproved'')') WHERE type = 'table' AND name = 'result_lines';
UPDATE sqlite_schema SET sql = replace(sql, '''not_run'')', '''not_run'', ''unapproved'')') WHERE type = 'table' AND name = 'calls';
PRAGMA writable_schema = RESET;
ALTER TABLE result_lines ADD COLUMN vendor TEXT NOT NULL DEFAULT '';

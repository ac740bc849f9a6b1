-- Answers of a vendor or a model that nobody approved: a word for what became of
-- the item, one for why a person gets the report, and who served a line.
-- +goose Up
ALTER TABLE works DROP CONSTRAINT works_reason_check, ADD CONSTRAINT works_reason_check CHECK (reason IN ('no_text', 'audio_only', 'too_large',
  'refused', 'blocked_by_provider', 'truncated', 'invalid_output', 'conflicting_results', 'rejected_by_provider', 'attempts_used_up', 'overdue',
  'routed', 'text_unreadable', 'unapproved_processor'));
ALTER TABLE items DROP CONSTRAINT items_outcome_check, ADD CONSTRAINT items_outcome_check CHECK (outcome IN ('succeeded', 'refused', 'blocked',
  'truncated', 'invalid', 'rejected', 'failed', 'denied', 'out_of_credit', 'expired', 'cancelled', 'not_run', 'missing', 'conflict', 'not_sent',
  'unapproved'));
ALTER TABLE result_lines DROP CONSTRAINT result_lines_outcome_check, ADD CONSTRAINT result_lines_outcome_check CHECK (outcome IN ('succeeded',
  'refused', 'blocked', 'truncated', 'invalid', 'rejected', 'failed', 'denied', 'out_of_credit', 'expired', 'cancelled', 'not_run', 'unreadable',
  'unapproved'));
ALTER TABLE calls DROP CONSTRAINT calls_outcome_check, ADD CONSTRAINT calls_outcome_check CHECK (outcome IN ('answered', 'refused', 'blocked',
  'truncated', 'bad_shape', 'rejected', 'failed', 'denied', 'out_of_credit', 'expired', 'cancelled', 'not_run', 'unapproved'));
ALTER TABLE result_lines ADD COLUMN vendor TEXT NOT NULL DEFAULT '';

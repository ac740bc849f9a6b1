-- The number of the newest audit event, 0 when there is none.
SELECT COALESCE(MAX(seq), 0) FROM audit_events

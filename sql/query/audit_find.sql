-- Whether the transaction with this token is committed.
SELECT COUNT(*) FROM audit_events WHERE op_id = $1

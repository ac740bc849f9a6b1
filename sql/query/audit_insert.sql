-- Notes what a transaction did, within it.
INSERT INTO audit_events (at_us, actor, kind, subject, detail, op_id)
VALUES ($1, $2, $3, $4, $5, $6)

-- Notes what a transaction did, within it, and says in which life of the ledger.
INSERT INTO audit_events (at_us, actor, kind, subject, detail, op_id)
VALUES ($1, $2, $3, $4, $5, $6)
RETURNING COALESCE((SELECT generation FROM ledger WHERE one = 1), 0)

-- Notes that an account holds what it should not, once.
INSERT INTO surplus_objects (account, kind, object_id, submission_id, why, found_us)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING

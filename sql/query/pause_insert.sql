-- Sets a pause unless it is set already.
INSERT INTO pauses (pause_id, scope, stage, set_by, reason, set_us)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (scope, stage) WHERE lifted_us IS NULL DO NOTHING

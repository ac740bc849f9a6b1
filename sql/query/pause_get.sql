-- The active pause of a scope and stage.
SELECT pause_id, scope, stage, set_by, reason, set_us FROM pauses WHERE scope = $1 AND stage = $2 AND lifted_us IS NULL

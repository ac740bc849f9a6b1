-- Whether a pause holds for a scope and stage.
SELECT COUNT(*) FROM pauses WHERE scope = $1 AND stage = $2 AND lifted_us IS NULL

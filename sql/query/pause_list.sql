-- Active pauses.
SELECT pause_id, scope, stage, set_by, reason, set_us FROM pauses WHERE lifted_us IS NULL ORDER BY set_us, pause_id

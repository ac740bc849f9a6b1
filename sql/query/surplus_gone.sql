-- Notes that a surplus object exists no longer.
UPDATE surplus_objects SET gone_us = $1 WHERE account = $2 AND kind = $3 AND object_id = $4 AND gone_us IS NULL

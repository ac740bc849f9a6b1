-- Surplus objects of an account that may still exist.
SELECT object_id FROM surplus_objects WHERE account = $1 AND kind = $2 AND gone_us IS NULL ORDER BY object_id

-- Whether this server takes writes: a standby and a read-only one do not.
SELECT CASE WHEN pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' THEN 0 ELSE 1 END

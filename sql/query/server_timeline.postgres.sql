-- The timeline of the write-ahead log: eight hexadecimal digits that change at
-- each promotion. Not from the control file, which tells it late. Null on a standby.
SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END

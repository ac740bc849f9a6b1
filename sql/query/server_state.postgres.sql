-- Whether the server may hold a ledger: its version, whether it writes, and its clock.
SELECT CAST(current_setting('server_version_num') AS BIGINT) AS version, current_setting('server_version') AS shown,
  pg_is_in_recovery() AS in_recovery, current_setting('transaction_read_only') = 'on' AS read_only,
  CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT) AS now_us

-- How many standbys are connected, how many of them a COMMIT waits for, and of how
-- many this role is not told.
SELECT COUNT(*) AS connected,
  COUNT(CASE WHEN sync_state IN ('sync', 'quorum') THEN 1 END) AS synchronous,
  COUNT(CASE WHEN sync_state IS NULL THEN 1 END) AS hidden
FROM pg_stat_replication

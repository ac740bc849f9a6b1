-- Counts that stand alone.
SELECT (SELECT COUNT(*) FROM reports) AS reports,
  (SELECT COUNT(*) FROM findings WHERE resolved_us IS NULL) AS open_findings,
  (SELECT MIN(next_poll_us) FROM jobs WHERE state = 'submitted') AS next_poll_us

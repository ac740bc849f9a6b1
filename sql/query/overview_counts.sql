-- Counts that stand alone.
SELECT (SELECT COUNT(*) FROM reports) AS reports,
  (SELECT COUNT(*) FROM findings WHERE resolved_us IS NULL) AS open_findings,
  (SELECT MIN(next_poll_us) FROM jobs WHERE state = 'submitted' AND called = 0) AS next_poll_us,
  (SELECT MIN(next_poll_us) FROM jobs WHERE state = 'submitted' AND called = 1) AS next_call_us

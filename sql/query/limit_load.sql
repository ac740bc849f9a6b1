-- What an account has: jobs that are open, their tokens, and the intents since $2.
SELECT
  (SELECT COUNT(*) FROM submissions WHERE account = $1 AND outcome IS NULL)
    + (SELECT COUNT(*) FROM jobs WHERE account = $1 AND state = 'submitted') AS open_jobs,
  CAST((SELECT COALESCE(SUM(estimated_input_tokens), 0) FROM submissions WHERE account = $1 AND outcome IS NULL)
    + (SELECT COALESCE(SUM(s.estimated_input_tokens), 0) FROM jobs AS j JOIN submissions AS s ON s.job_id = j.job_id AND s.outcome = 'accepted'
      WHERE j.account = $1 AND j.state = 'submitted') AS BIGINT) AS enqueued_tokens,
  (SELECT COUNT(*) FROM submissions WHERE account = $1 AND intent_us > $2) AS creates,
  (SELECT MIN(intent_us) FROM submissions WHERE account = $1 AND intent_us > $2) AS first_us

-- What the submissions of each policy may cost and do cost, by currency; those
-- since $1 are today's. Counted is what counts against a budget; see budget_day.
SELECT c.policy_id, c.currency,
  CAST(SUM(CASE WHEN c.intent_us >= $1 THEN 1 ELSE 0 END) AS BIGINT) AS "today.submissions",
  CAST(SUM(CASE WHEN c.intent_us >= $1 THEN c.estimate ELSE 0 END) AS BIGINT) AS "today.estimate",
  CAST(SUM(CASE WHEN c.intent_us >= $1 THEN c.cost ELSE 0 END) AS BIGINT) AS "today.cost",
  CAST(SUM(CASE WHEN c.intent_us >= $1 THEN c.counted ELSE 0 END) AS BIGINT) AS "today.counted",
  CAST(SUM(CASE WHEN c.intent_us >= $1 THEN c.unknown ELSE 0 END) AS BIGINT) AS "today.unknown",
  COUNT(*) AS "total.submissions", CAST(SUM(c.estimate) AS BIGINT) AS "total.estimate", CAST(SUM(c.cost) AS BIGINT) AS "total.cost",
  CAST(SUM(c.counted) AS BIGINT) AS "total.counted", CAST(SUM(c.unknown) AS BIGINT) AS "total.unknown"
FROM (
  SELECT j.policy_id, COALESCE(s.currency, '') AS currency, s.intent_us, COALESCE(s.estimated_micros, 0) AS estimate, s.cost_micros AS cost, s.cost_unknown AS unknown,
    CASE WHEN j.state = 'consumed' AND s.outcome = 'accepted'
        THEN s.cost_micros + s.cost_unknown * ((COALESCE(s.estimated_micros, 0) + s.line_count - 1) / s.line_count)
      WHEN s.cost_micros > COALESCE(s.estimated_micros, 0) THEN s.cost_micros
      ELSE COALESCE(s.estimated_micros, 0) END AS counted
  FROM submissions AS s JOIN jobs AS j ON j.job_id = s.job_id
  WHERE s.outcome IS NULL OR s.outcome NOT IN ('rejected', 'proven_absent')) AS c
GROUP BY c.policy_id, c.currency
ORDER BY c.policy_id, c.currency

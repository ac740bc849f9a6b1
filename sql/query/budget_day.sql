-- What the submissions of a policy come to whose intents are in [$2, $3), in the
-- currency $4, and how many there are of which nobody knows. One that provably
-- made no job costs nothing. One whose job is consumed costs what its items did;
-- an item of unknown usage counts with its share of the estimate, rounded up.
-- Any other counts with its estimate, or with what is known of it if that is more.
SELECT CAST(COALESCE(SUM(CASE WHEN c.known = 1 THEN c.spent ELSE 0 END), 0) AS BIGINT) AS spent,
  CAST(COALESCE(SUM(1 - c.known), 0) AS BIGINT) AS uncounted
FROM (
  SELECT
    CASE WHEN s.currency IS NULL OR s.currency <> $4 THEN 0
      WHEN s.estimated_micros IS NOT NULL THEN 1
      WHEN j.state = 'consumed' AND s.outcome = 'accepted' AND s.cost_unknown = 0 THEN 1
      ELSE 0 END AS known,
    CASE WHEN j.state = 'consumed' AND s.outcome = 'accepted'
        THEN s.cost_micros + s.cost_unknown * ((COALESCE(s.estimated_micros, 0) + s.line_count - 1) / s.line_count)
      WHEN s.cost_micros > s.estimated_micros THEN s.cost_micros
      ELSE s.estimated_micros END AS spent
  FROM submissions AS s JOIN jobs AS j ON j.job_id = s.job_id
  WHERE j.policy_id = $1 AND s.intent_us >= $2 AND s.intent_us < $3
    AND (s.outcome IS NULL OR s.outcome NOT IN ('rejected', 'proven_absent'))) AS c

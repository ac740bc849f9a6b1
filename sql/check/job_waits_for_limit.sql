-- Jobs that have waited for a limit of their account since before $2. Parameters:
-- $1 how many to list, $2 an instant.
WITH offenders AS (
  SELECT 'job:' || job_id AS subject, 'waits for ' || waits_for || ', ' || CAST(item_count AS TEXT) || ' items' AS detail
  FROM jobs WHERE state = 'ready' AND waits_since_us <= $2
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

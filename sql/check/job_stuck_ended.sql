-- Jobs that ended before $2 and are not consumed. Parameters: $1 how many to
-- list, $2 an instant.
WITH offenders AS (
  SELECT 'job:' || job_id AS subject,
    'provider job ' || provider_job_id || ', ' || CAST(item_count AS TEXT) || ' items, ended and not consumed' AS detail
  FROM jobs WHERE state = 'ended' AND ended_us <= $2
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

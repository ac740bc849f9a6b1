-- Jobs that were accepted by the provider before $2 and have not ended.
-- Parameters: $1 how many to list, $2 an instant.
WITH offenders AS (
  SELECT 'job:' || job_id AS subject,
    'provider job ' || provider_job_id || ', status ' || COALESCE(provider_status, 'unknown') || ', ' || CAST(item_count AS TEXT) || ' items' AS detail
  FROM jobs WHERE state = 'submitted' AND submitted_us <= $2
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

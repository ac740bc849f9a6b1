-- Result files that are not read although half of their life at the provider is
-- over, counted from when the job was accepted there. Parameters: $1 how many
-- to list, $2 an instant.
WITH offenders AS (
  SELECT 'job:' || j.job_id AS subject,
    'provider job ' || j.provider_job_id || ', ' || CAST(COUNT(*) AS TEXT) || ' result files not read, ' || CAST(j.item_count AS TEXT) || ' items' AS detail
  FROM result_sets s JOIN jobs j ON j.job_id = s.job_id
  WHERE s.state = 'staging' AND j.called = 0 AND j.submitted_us <= $2
  GROUP BY j.job_id, j.provider_job_id, j.item_count
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

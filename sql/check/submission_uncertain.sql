-- Submissions without an outcome whose send deadline passed before $2: nobody
-- knows whether the provider has the job. Without the MAC of a body none was asked
-- for, and submit closes them by itself. Parameters: $1 how many to list, $2 an
-- instant.
WITH offenders AS (
  SELECT 'submission:' || s.submission_id AS subject,
    'job ' || s.job_id || ', attempt ' || CAST(s.attempt AS TEXT) || ', ' || CAST(s.line_count AS TEXT) || ' lines' || COALESCE(', input file ' || s.input_file_id, '') AS detail
  FROM submissions s WHERE s.outcome IS NULL AND s.body_mac IS NOT NULL AND s.send_deadline_us <= $2
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

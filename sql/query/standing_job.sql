-- What the ledger knows of a listed job: by its id, and by the submission that
-- it names or, where it names none, whose input file it runs over.
SELECT
  (SELECT COUNT(*) FROM jobs WHERE provider_job_id = $1) + (SELECT COUNT(*) FROM probes WHERE provider_job_id = $1) AS known,
  s.submission_id, s.outcome, s.input_file_id, s.job_state, u.found_us, u.gone_us
FROM (SELECT 1 AS one) AS o
LEFT JOIN (
  SELECT n.submission_id, n.outcome, n.input_file_id, j.state AS job_state FROM submissions AS n JOIN jobs AS j ON j.job_id = n.job_id
  WHERE n.submission_id = CASE WHEN $2 <> '' THEN $2
    ELSE (SELECT MIN(f.submission_id) FROM submissions AS f WHERE f.input_file_id = $3) END
) AS s ON 1 = 1
LEFT JOIN surplus_objects AS u ON u.account = $4 AND u.kind = $5 AND u.object_id = $1

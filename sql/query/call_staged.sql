-- What is staged of a set: how far, how much, and how many answers that can be used.
SELECT COALESCE(MAX(line), 0) AS last, COUNT(*) AS lines, CAST(COALESCE(SUM(byte_count), 0) AS BIGINT) AS bytes,
  COALESCE(SUM(CASE WHEN outcome = 'succeeded' THEN 1 ELSE 0 END), 0) AS succeeded
FROM result_lines WHERE job_id = $1 AND channel = $2

-- Reports with more than one authoritative record. Parameter: $1 how many to list.
WITH offenders AS (
  SELECT 'report:' || report_id AS subject, CAST(COUNT(*) AS TEXT) || ' records stand for it' AS detail
  FROM review_records WHERE authoritative = 1
  GROUP BY report_id HAVING COUNT(*) > 1
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

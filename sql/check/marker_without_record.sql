-- Works that are marked as applied and have no record. Ids alone are compared
-- first, index against index. Parameter: $1 how many to list.
WITH suspects AS MATERIALIZED (
  SELECT m.work_id FROM processed_markers m
  WHERE NOT EXISTS (SELECT 1 FROM review_records v WHERE v.work_id = m.work_id)
), offenders AS (
  SELECT 'work:' || m.work_id AS subject, 'marked as ' || m.decision || ', no record' AS detail
  FROM suspects s CROSS JOIN processed_markers m WHERE m.work_id = s.work_id
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

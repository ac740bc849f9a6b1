-- Records of works that are not marked as applied. Ids alone are compared
-- first, index against index. Parameter: $1 how many to list.
WITH suspects AS MATERIALIZED (
  SELECT v.work_id FROM review_records v
  WHERE NOT EXISTS (SELECT 1 FROM processed_markers m WHERE m.work_id = v.work_id)
), offenders AS (
  SELECT 'work:' || v.work_id AS subject,
    'report ' || v.report_id || ', revision ' || CAST(v.revision AS TEXT) || ', ' || v.kind || ' record, no marker' AS detail
  FROM suspects s CROSS JOIN review_records v WHERE v.work_id = s.work_id
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

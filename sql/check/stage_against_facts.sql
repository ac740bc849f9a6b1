-- Works whose stage says something else than the facts. A work that was given
-- to a person while its text was at the provider keeps its open item: it has a
-- reason. Nothing is wrong with a work that is recorded, marked, and no open
-- member; only the others are looked at. Parameter: $1 how many to list.
WITH unmarked AS MATERIALIZED (
  SELECT w.work_id FROM works w
  WHERE NOT EXISTS (SELECT 1 FROM processed_markers m WHERE m.work_id = w.work_id)
), suspects AS (
  SELECT work_id FROM unmarked
  UNION
  SELECT work_id FROM items WHERE outcome IS NULL
), looked_at AS (
  SELECT work_id, report_id, revision, stage, reason FROM works WHERE stage <> 'recorded'
  UNION ALL
  SELECT w.work_id, w.report_id, w.revision, w.stage, w.reason FROM suspects s CROSS JOIN works w
  WHERE w.work_id = s.work_id AND w.stage = 'recorded'
), facts AS (
  SELECT w.work_id, w.report_id, w.revision, w.stage,
    CASE WHEN o.work_id IS NULL THEN 0 ELSE 1 END AS open_item,
    CASE WHEN a.work_id IS NULL THEN 0 ELSE 1 END AS artifact,
    CASE WHEN w.reason IS NULL THEN 0 ELSE 1 END AS reason,
    CASE WHEN m.work_id IS NULL THEN 0 ELSE 1 END AS marker
  FROM looked_at w
  LEFT JOIN (SELECT DISTINCT work_id FROM items WHERE outcome IS NULL) o ON o.work_id = w.work_id
  LEFT JOIN artifacts a ON a.work_id = w.work_id
  LEFT JOIN processed_markers m ON m.work_id = w.work_id
), offenders AS (
  SELECT 'work:' || work_id AS subject,
    'report ' || report_id || ', revision ' || CAST(revision AS TEXT) || ', stage ' || stage
      || CASE open_item WHEN 1 THEN ', open item' ELSE ', no open item' END
      || CASE artifact WHEN 1 THEN ', artifact' ELSE ', no artifact' END
      || CASE reason WHEN 1 THEN ', reason' ELSE ', no reason' END
      || CASE marker WHEN 1 THEN ', marker' ELSE ', no marker' END AS detail
  FROM facts
  WHERE NOT CASE stage
    WHEN 'pending' THEN open_item = 0 AND artifact = 0 AND reason = 0 AND marker = 0
    WHEN 'collected' THEN open_item = 1 AND artifact = 0 AND reason = 0 AND marker = 0
    WHEN 'extracted' THEN (artifact = 1 OR reason = 1) AND marker = 0 AND (open_item = 0 OR reason = 1)
    ELSE marker = 1 AND (open_item = 0 OR reason = 1) END
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

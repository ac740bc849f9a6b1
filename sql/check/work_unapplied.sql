-- Works whose outcome has been known since before $2 and was not applied. The
-- outcome is known since the artifact, else since the last item was decided,
-- else since the work was made. Parameters: $1 how many to list, $2 an instant.
WITH extracted AS (
  SELECT w.work_id, w.report_id, w.revision,
    COALESCE((SELECT a.created_us FROM artifacts a WHERE a.work_id = w.work_id),
      (SELECT MAX(i.decided_us) FROM items i WHERE i.work_id = w.work_id), w.created_us) AS known_us
  FROM works w WHERE w.stage = 'extracted'
), offenders AS (
  SELECT 'work:' || work_id AS subject, 'report ' || report_id || ', revision ' || CAST(revision AS TEXT) || ', extracted and not applied' AS detail
  FROM extracted WHERE known_us <= $2
)
SELECT subject, detail, COUNT(*) OVER () AS total FROM offenders ORDER BY subject LIMIT $1

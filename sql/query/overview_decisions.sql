-- Open findings that a person should look at: critical ones first, then newest
-- first, at most $1 of a name, so that one flood does not hide the others, and
-- at most $2 in all.
SELECT finding_id, name, kind, subject, severity, detail, opened_us, last_seen_us, seen, resolved_us, resolved_by, resolution
FROM (
  SELECT f.*, ROW_NUMBER() OVER (PARTITION BY name ORDER BY opened_us DESC, finding_id DESC) AS nth
  FROM findings f WHERE resolved_us IS NULL AND severity IN ('warning', 'critical')
) AS ranked
WHERE nth <= $1
ORDER BY CASE severity WHEN 'critical' THEN 0 ELSE 1 END, opened_us DESC, finding_id DESC LIMIT $2

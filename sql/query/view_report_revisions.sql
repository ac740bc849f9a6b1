-- The revisions of a report.
SELECT v.revision, v.accepted_us, v.content_bytes, v.cleaned, v.urgent, v.media, CASE WHEN h.report_id IS NULL THEN 0 ELSE 1 END AS held
FROM revisions v
LEFT JOIN holds h ON h.report_id = v.report_id AND h.revision = v.revision
WHERE v.report_id = $1 ORDER BY v.revision

-- Held revisions behind a position, oldest first.
SELECT h.report_id, r.tenant_id, r.source_system, r.external_id, h.revision, v.content_bytes, v.urgent, v.media, v.no_text, v.accepted_us
FROM holds h
JOIN revisions v ON v.report_id = h.report_id AND v.revision = h.revision
JOIN reports r ON r.report_id = h.report_id
WHERE (h.held_us, h.report_id) > ($1, $2)
ORDER BY h.held_us, h.report_id
LIMIT $3

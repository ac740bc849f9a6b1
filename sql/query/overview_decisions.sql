-- Open events that a person should decide about, newest first.
SELECT finding_id, name, kind, subject, severity, detail, opened_us, last_seen_us, seen, resolved_us, resolved_by, resolution
FROM findings WHERE resolved_us IS NULL AND kind = 'event' AND severity IN ('warning', 'critical')
ORDER BY opened_us DESC, finding_id DESC LIMIT $1

-- Open findings, newest first.
SELECT finding_id, name, kind, subject, severity, detail, opened_us, last_seen_us, seen, resolved_us, resolved_by, resolution
FROM findings WHERE resolved_us IS NULL ORDER BY opened_us DESC, finding_id DESC LIMIT $1

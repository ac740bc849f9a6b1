-- Open events, newest first: what no invariant will close.
SELECT finding_id, name, kind, subject, severity, detail, opened_us, last_seen_us, seen, resolved_us, resolved_by, resolution
FROM findings WHERE resolved_us IS NULL AND kind = 'event' ORDER BY opened_us DESC, finding_id DESC LIMIT $1

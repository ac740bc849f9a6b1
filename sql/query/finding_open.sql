-- Opens a finding; while one is open for the same name and subject, counts it.
INSERT INTO findings (finding_id, name, kind, subject, severity, detail, opened_us, last_seen_us, seen)
VALUES ($1, $2, $3, $4, $5, $6, $7, $7, 1)
ON CONFLICT (name, subject) WHERE resolved_us IS NULL
DO UPDATE SET seen = findings.seen + 1, last_seen_us = excluded.last_seen_us, severity = excluded.severity, detail = excluded.detail
RETURNING seen

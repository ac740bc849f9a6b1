-- Opens a finding for each breach of one invariant, or counts the one that is open.
INSERT INTO findings (finding_id, name, kind, subject, severity, detail, opened_us, last_seen_us, seen)
SELECT b.finding_id, $1, 'invariant', b.subject, $2, b.detail, CAST($3 AS BIGINT), CAST($3 AS BIGINT), 1 FROM new_breaches b
WHERE true
ON CONFLICT (name, subject) WHERE resolved_us IS NULL
DO UPDATE SET seen = findings.seen + 1, last_seen_us = excluded.last_seen_us, severity = excluded.severity, detail = excluded.detail
RETURNING seen

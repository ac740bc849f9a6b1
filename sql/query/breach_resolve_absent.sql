-- Resolves the findings of one invariant that its check no longer sees.
UPDATE findings SET resolved_us = $1, resolved_by = $2, resolution = 'the check no longer sees it'
WHERE name = $3 AND kind = 'invariant' AND resolved_us IS NULL
  AND NOT EXISTS (SELECT 1 FROM new_breaches b WHERE b.subject = findings.subject)

-- Authoritative records by label, or by reason.
SELECT kind, COALESCE(label, reason) AS what, COUNT(*) AS n
FROM review_records WHERE authoritative = 1
GROUP BY kind, COALESCE(label, reason)

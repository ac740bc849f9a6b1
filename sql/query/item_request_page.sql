-- The next request lines of a job: at most $3 of them, and no further line
-- once those before it hold $4 bytes of text, so that a page stays small
-- however long the texts are.
SELECT p.line, p.work_id, p.report_id, v.content_mac, t.encrypted, t.key_id
FROM (
  SELECT i.line, i.work_id, w.report_id, w.revision, SUM(w.content_bytes) OVER (ORDER BY i.line) - w.content_bytes AS bytes_before
  FROM items AS i JOIN works AS w ON w.work_id = i.work_id
  WHERE i.job_id = $1 AND i.line > $2 AND i.line <= $2 + $3) AS p
JOIN revisions AS v ON v.report_id = p.report_id AND v.revision = p.revision
JOIN texts AS t ON t.report_id = p.report_id AND t.revision = p.revision
WHERE p.bytes_before < $4
ORDER BY p.line

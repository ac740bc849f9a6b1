-- What a submission is about to send, in the order of its lines.
SELECT i.work_id, w.revision, w.content_bytes
FROM items AS i JOIN works AS w ON w.work_id = i.work_id
WHERE i.job_id = $1 AND i.line IS NOT NULL
ORDER BY i.line

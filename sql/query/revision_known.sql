-- What the ledger holds about each delivery of a chunk: the content under its
-- revision, and the newest revision with its content.
SELECT d.report_id, v.content_mac AS revision_mac,
  (SELECT MAX(s.revision) FROM revisions s WHERE s.report_id = d.report_id AND s.content_mac = d.content_mac) AS same_content
FROM intake_deliveries d
LEFT JOIN revisions v ON v.report_id = d.report_id AND v.revision = d.revision

-- What stood for a report becomes history, before its successor is written.
UPDATE review_records SET authoritative = 0
WHERE authoritative = 1 AND report_id IN (SELECT report_id FROM apply_works WHERE decision = 'authoritative')

-- Ends works without an artifact, since their text is damaged. The next intent
-- of their job drops them. For the CASE see work_collect.sql.
UPDATE works SET stage = 'extracted', reason = 'text_unreadable'
WHERE work_id IN (SELECT work_id FROM unreadable_works)
  AND CASE WHEN stage = 'collected' AND disposition = 'live' THEN 1 ELSE 0 END = 1

-- Takes back what is wanted of older revisions than the accepted edits.
UPDATE works SET disposition = 'superseded'
WHERE disposition = 'live' AND work_id IN (
  SELECT w.work_id FROM intake_settled s CROSS JOIN works w
  WHERE s.verdict = 'revised' AND w.report_id = s.report_id AND w.revision < s.revision AND w.disposition = 'live')

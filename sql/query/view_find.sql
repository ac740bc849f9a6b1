-- Reports by an id of ours: of the report, of a work ($2 is the work's part of
-- a custom id), or of a review record, which has its work's id.
SELECT report_id FROM reports WHERE report_id = $1
UNION
SELECT report_id FROM works WHERE work_id IN ($1, $2)

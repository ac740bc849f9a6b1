-- Drops the holds of revisions that went to a person: an approval makes no work of them.
DELETE FROM holds WHERE (report_id, revision) IN (SELECT report_id, revision FROM route_works WHERE made = 1)

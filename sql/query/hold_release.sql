-- Drops the holds that were bound, and those that turned out to be history.
DELETE FROM holds WHERE (report_id, revision) IN (SELECT report_id, revision FROM intake_bindings)

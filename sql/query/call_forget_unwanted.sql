-- Leaves out what is not to be called.
DELETE FROM claiming WHERE work_id IN (SELECT work_id FROM uncalled)

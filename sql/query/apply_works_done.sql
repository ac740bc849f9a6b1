-- The works of a chunk have their record and marker.
UPDATE works SET stage = 'recorded' WHERE stage = 'extracted' AND work_id IN (SELECT work_id FROM apply_works)

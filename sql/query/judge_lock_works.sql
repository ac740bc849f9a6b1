-- The works of a chunk of rulings, for a lock in order of their ids.
SELECT work_id FROM works WHERE work_id IN (SELECT work_id FROM rulings) ORDER BY work_id

-- The works of a planning step, by id; the caller locks them in this order.
SELECT work_id FROM works WHERE work_id IN (SELECT work_id FROM step_works) ORDER BY work_id

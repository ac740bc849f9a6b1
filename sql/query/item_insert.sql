-- Makes the works of a planning step members of their job. They are numbered
-- as if all of them were sent, which they mostly are; the intent numbers again
-- when some are not.
INSERT INTO items (job_id, work_id, boundary_id, position, line)
SELECT $1, w.work_id, w.boundary_id, s.position, s.position
FROM step_works AS s JOIN works AS w ON w.work_id = s.work_id

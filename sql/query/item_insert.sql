-- Makes the works of a planning step members of their job.
INSERT INTO items (job_id, work_id, boundary_id, position)
SELECT $1, w.work_id, w.boundary_id, s.position
FROM step_works AS s JOIN works AS w ON w.work_id = s.work_id

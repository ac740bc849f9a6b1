-- Its members, by their lines in the request body.
INSERT INTO items (job_id, work_id, boundary_id, position, line)
SELECT $1, w.work_id, w.boundary_id, a.line, a.line
FROM adopted_works AS a JOIN works AS w ON w.work_id = a.work_id
WHERE w.stage = 'pending'

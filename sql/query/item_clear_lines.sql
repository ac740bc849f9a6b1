-- Takes the lines of an earlier attempt back, since renumbering in place would meet them.
UPDATE items SET line = NULL WHERE job_id = $1 AND line IS NOT NULL

-- Stores a boundary, unless it is there.
INSERT INTO boundaries (boundary_id, processor, account, host, region, terms, created_us)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (boundary_id) DO NOTHING

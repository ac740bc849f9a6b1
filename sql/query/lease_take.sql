-- Takes a lease that is free or has expired. The guard stands on the UPDATE
-- itself, so that of two takers one finds no row.
UPDATE leases SET holder = $1, fence = fence + 1, expires_us = $2
WHERE name = $3 AND (holder = '' OR expires_us <= $4)
RETURNING fence

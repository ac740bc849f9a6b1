-- Gives a lease up. The fence stays, so that it only ever grows.
UPDATE leases SET holder = '', expires_us = 0 WHERE name = $1 AND fence = $2

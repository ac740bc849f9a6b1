-- Proves and prolongs a lease within a transaction.
UPDATE leases SET expires_us = $1 WHERE name = $2 AND fence = $3 AND holder <> ''

-- Reads a gate; the caller adds the row lock.
SELECT fence FROM leases WHERE name = $1

-- Changes a lease that nobody takes, to find out whether the database takes writes.
UPDATE leases SET fence = fence + 1 WHERE name = $1

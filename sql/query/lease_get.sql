-- Who holds a lease, and until when.
SELECT name, holder, expires_us FROM leases WHERE name = $1

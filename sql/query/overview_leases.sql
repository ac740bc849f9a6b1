-- Leases that somebody holds, by name.
SELECT name, holder, expires_us FROM leases WHERE holder <> '' AND expires_us > $1 ORDER BY name

-- The name of the account that a boundary permits.
SELECT account FROM boundaries WHERE boundary_id = $1

-- Begins a new generation.
UPDATE ledger SET generation = generation + 1 WHERE one = 1 AND generation = $1

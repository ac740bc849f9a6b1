-- The ledger's identity.
SELECT ledger_id, generation, key_check FROM ledger WHERE one = 1

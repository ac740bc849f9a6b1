-- The ledger's identity.
SELECT ledger_id, key_check FROM ledger WHERE one = 1

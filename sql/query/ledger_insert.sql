-- Makes the ledger's identity, once.
INSERT INTO ledger (one, ledger_id, generation, key_check, created_us) VALUES (1, $1, 1, $2, $3)
ON CONFLICT (one) DO NOTHING

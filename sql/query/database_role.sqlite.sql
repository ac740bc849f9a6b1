-- Whether the ledger can be read; a file takes writes wherever its process may write it.
SELECT COUNT(*) FROM ledger

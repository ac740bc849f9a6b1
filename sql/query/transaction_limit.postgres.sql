-- Bounds this transaction on the server: how long it may do nothing, and how long
-- it may wait for a lock. Local to it, since behind a pooler what is set for a
-- session reaches whoever gets the server's connection next, and a setting in
-- the address is refused.
SELECT set_config('idle_in_transaction_session_timeout', $1, true), set_config('lock_timeout', $2, true)

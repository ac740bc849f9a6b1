-- Bounds this transaction on the server: how long it may do nothing, how long it
-- may wait for a lock, and, where the server can, how long it may take. In the
-- middle of a statement that was not sent whole it does not count as doing
-- nothing; keep-alive ends it then when the network is cut. All of it is local to
-- the transaction, since behind a pooler what is set for a session reaches whoever
-- gets the server's connection next, and a setting in the address is refused.
SELECT set_config('idle_in_transaction_session_timeout', $1, true), set_config('lock_timeout', $2, true),
	set_config('tcp_keepalives_idle', '15', true), set_config('tcp_keepalives_interval', '15', true), set_config('tcp_keepalives_count', '3', true),
	CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL THEN set_config('transaction_timeout', $3, true) END

-- The names of the settings that this connection brought along.
SELECT lower(name) FROM pg_settings WHERE source IN ('client', 'session')

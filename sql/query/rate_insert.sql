-- An account that was never called. Its bucket is filled at the first look.
INSERT INTO rates (account, tokens, refilled_us, refusals) VALUES ($1, 0, 0, 0) ON CONFLICT (account) DO NOTHING

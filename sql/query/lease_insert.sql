-- Makes a lease that anybody may take, unless it is there.
INSERT INTO leases (name, holder, fence, expires_us) VALUES ($1, '', 0, 0) ON CONFLICT (name) DO NOTHING

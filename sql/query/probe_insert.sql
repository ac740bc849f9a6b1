-- A job over nothing, made to be found in its account's list.
INSERT INTO probes (account, provider_job_id, made_us) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING

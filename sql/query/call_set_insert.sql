-- The one set of results of a job whose texts were called one by one.
INSERT INTO result_sets (job_id, channel, state) VALUES ($1, $2, 'staging') ON CONFLICT (job_id, channel) DO NOTHING

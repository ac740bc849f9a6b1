-- Names a set of results to be read.
INSERT INTO result_sets (job_id, channel, state, file_id) VALUES ($1, $2, 'staging', $3)

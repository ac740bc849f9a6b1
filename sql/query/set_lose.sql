-- A result set is gone at the provider.
UPDATE result_sets SET state = 'lost' WHERE job_id = $1 AND channel = $2 AND state = 'staging'

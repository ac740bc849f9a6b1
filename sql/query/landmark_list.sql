-- The jobs that an account certainly holds, made since an instant. One that the
-- provider did not know when it was asked is none.
SELECT provider_job_id, submitted_us AS made_us, 0 AS probe FROM jobs
WHERE account = $1 AND submitted_us >= $2 AND poll_misses = 0 AND provider_job_id IS NOT NULL
UNION ALL
SELECT provider_job_id, made_us, 1 FROM probes WHERE account = $1 AND made_us >= $2
ORDER BY 2, 1

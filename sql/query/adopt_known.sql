-- Whether the ledger knows a provider job by now, or the submission that made it.
SELECT (SELECT COUNT(*) FROM jobs WHERE provider_job_id = $1) + (SELECT COUNT(*) FROM submissions WHERE submission_id = $2)

-- What became of the result lines of a job.
SELECT channel, disposition AS name, COUNT(*) AS n FROM result_lines WHERE job_id = $1 GROUP BY channel, disposition

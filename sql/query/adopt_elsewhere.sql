-- Works of an adopted job that are members of an older one without an outcome: the
-- ledger does not know yet why they were sent again.
SELECT COUNT(*) FROM items AS i
JOIN jobs AS j ON j.job_id = i.job_id
JOIN adopted_works AS a ON a.work_id = i.work_id
WHERE i.outcome IS NULL AND j.created_us < $1

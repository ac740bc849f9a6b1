-- How many works of an adopted job the ledger knows.
SELECT COUNT(*) FROM works AS w WHERE w.work_id IN (SELECT a.work_id FROM adopted_works AS a)

-- How many reports wait for an approved policy.
SELECT COUNT(*) FROM holds

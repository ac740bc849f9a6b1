-- Jobs that wait for a limit of their account, by limit.
SELECT waits_for AS name, COUNT(*) AS n FROM jobs WHERE state = 'ready' AND waits_for IS NOT NULL GROUP BY waits_for

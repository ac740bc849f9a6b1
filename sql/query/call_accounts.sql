-- The accounts that jobs wait for whose texts are called one by one.
SELECT DISTINCT account FROM jobs WHERE state = 'submitted' AND called = 1 ORDER BY account

-- Jobs by state.
SELECT state AS name, COUNT(*) AS n FROM jobs GROUP BY state

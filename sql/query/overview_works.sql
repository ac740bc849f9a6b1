-- Live works by stage.
SELECT stage AS name, COUNT(*) AS n FROM works WHERE disposition = 'live' GROUP BY stage

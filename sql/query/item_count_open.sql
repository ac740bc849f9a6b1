-- How many members a job has that are to be sent, and how many lines are missing for
-- them: those without one, and gaps where members left that had one.
SELECT COUNT(*) AS open, COUNT(*) - COUNT(line) + COALESCE(MAX(line), 0) - COUNT(line) AS unnumbered
FROM items WHERE job_id = $1 AND outcome IS NULL

-- What was read of a job and what its provider counts. Of several lines of one
-- member one counts, since duplicates must not hide what is missing. A member that
-- left for the job in which it was sent again was not judged by these results.
SELECT (SELECT COUNT(DISTINCT l.work_id) + COUNT(*) - COUNT(l.work_id) FROM result_lines l WHERE l.job_id = j.job_id) AS lines,
  COALESCE(j.provider_completed, 0) + COALESCE(j.provider_failed, 0) AS told,
  (SELECT COUNT(*) FROM result_sets s WHERE s.job_id = j.job_id AND s.state = 'lost') AS lost,
  (SELECT COUNT(*) FROM result_sets s WHERE s.job_id = j.job_id AND s.line_count < s.most_lines) AS shorter,
  (SELECT COUNT(*) FROM items i WHERE i.job_id = j.job_id AND i.outcome IS NOT NULL AND i.outcome <> 'not_sent' AND i.code <> 'sent_again') AS judged
FROM jobs j WHERE j.job_id = $1

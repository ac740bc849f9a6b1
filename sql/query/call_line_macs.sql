-- The digests of the staged lines of a set, in order.
SELECT line_mac FROM result_lines WHERE job_id = $1 AND channel = $2 ORDER BY line

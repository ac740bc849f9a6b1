-- The staged lines of the members of a job between two positions.
SELECT l.work_id, l.channel, l.line, l.line_mac, l.outcome, l.code, l.input_tokens, l.output_tokens
FROM items i
JOIN result_lines l ON l.job_id = i.job_id AND l.work_id = i.work_id
WHERE i.job_id = $1 AND i.position > $2 AND i.position <= $3 AND i.outcome IS NULL AND l.disposition = 'staged'

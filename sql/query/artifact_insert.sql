-- Makes the artifacts of the accepted lines of a chunk.
INSERT INTO artifacts (work_id, job_id, classifier, model, label, evidence, encrypted, key_id, payload_mac, input_tokens, output_tokens, created_us)
SELECT l.work_id, l.job_id, $1, l.model, l.label, l.evidence, l.encrypted, l.key_id, l.payload_mac, l.input_tokens, l.output_tokens, CAST($2 AS BIGINT)
FROM rulings r
JOIN result_lines l ON l.job_id = $3 AND l.channel = r.channel AND l.line = r.line
WHERE r.outcome = 'succeeded'
ON CONFLICT (work_id) DO NOTHING

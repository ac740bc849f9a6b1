-- Notes who decided about a policy version, once for each actor and decision.
INSERT INTO policy_decisions (policy_id, version, seq, decision, actor, reason, evidence_ref, spec_mac, decided_us)
SELECT $1, CAST($2 AS BIGINT), (SELECT COUNT(*) + 1 FROM policy_decisions WHERE policy_id = $1 AND version = $2), $3, $4, $5, $6, $7, CAST($8 AS BIGINT)
WHERE true
ON CONFLICT (policy_id, version, decision, actor) DO NOTHING

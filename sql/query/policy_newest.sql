-- The newest version of a policy, and the newest approved one.
SELECT MAX(version) AS newest, COALESCE(MAX(CASE WHEN state = 'approved' THEN version END), 0) AS approved
FROM policy_versions WHERE policy_id = $1

-- Lets works of a policy version be sent.
UPDATE policy_versions SET state = 'approved' WHERE policy_id = $1 AND version = $2 AND state = 'draft'

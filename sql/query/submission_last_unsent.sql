-- The last send deadline of an account's open submissions whose body was not noted.
SELECT MAX(s.send_deadline_us) FROM submissions AS s
WHERE s.account = $1 AND s.outcome IS NULL AND s.body_mac IS NULL

-- Notes how fast an account may be called from now on.
UPDATE rates SET tokens = $1, refilled_us = $2, not_before_us = $3, refusals = $4 WHERE account = $5

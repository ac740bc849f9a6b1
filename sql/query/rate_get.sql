-- How fast an account may be called; the caller adds the row lock.
SELECT tokens, refilled_us, not_before_us, refusals FROM rates WHERE account = $1

-- Lifts an active pause that was set for another reason.
UPDATE pauses SET lifted_by = $1, lift_reason = $2, lifted_us = $3
WHERE scope = $4 AND stage = $5 AND lifted_us IS NULL AND reason <> $6

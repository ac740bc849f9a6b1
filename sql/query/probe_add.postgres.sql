-- One of two statements with one argument whose answers cannot be confused; see probe_negate.
SELECT CAST($1 AS BIGINT) + 1000000

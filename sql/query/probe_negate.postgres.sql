-- One of two statements with one argument whose answers cannot be confused; see probe_add.
SELECT -CAST($1 AS BIGINT) - 1

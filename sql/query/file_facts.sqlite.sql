-- How this connection keeps the file.
SELECT (SELECT journal_mode FROM pragma_journal_mode) AS journal_mode,
  (SELECT synchronous FROM pragma_synchronous) AS synchronous,
  (SELECT foreign_keys FROM pragma_foreign_keys) AS foreign_keys

-- What an operator should know of the server. Who waits for standbys is that of this session.
SELECT current_setting('is_superuser') = 'on' AS superuser,
  current_setting('synchronous_commit') AS synchronous_commit,
  current_setting('synchronous_standby_names') AS synchronous_standby_names,
  CAST(current_setting('max_connections') AS BIGINT) AS max_connections,
  current_setting('log_statement') AS log_statement,
  current_setting('log_min_duration_statement') AS log_min_duration_statement,
  current_setting('log_min_error_statement') AS log_min_error_statement,
  current_setting('log_error_verbosity') AS log_error_verbosity,
  current_setting('log_parameter_max_length') AS log_parameter_max_length,
  current_setting('log_parameter_max_length_on_error') AS log_parameter_max_length_on_error

-- The server's process that answers, and the socket that it sees.
SELECT pg_backend_pid() AS pid, COALESCE(host(inet_client_addr()), '') AS host, COALESCE(inet_client_port(), -1) AS port

"""Results of earlier translations: in this process, and in Redis for all servers of one `--state`."""

"""What servers remember: API keys, usage, history and glossaries over one interface, in SQLite or
in Redis."""

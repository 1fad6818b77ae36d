"""What was served lately, in memory, in SQLite or in Redis."""

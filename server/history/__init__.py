"""Records of recent translations, in memory, in SQLite or in Redis."""

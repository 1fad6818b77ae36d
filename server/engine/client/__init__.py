"""The API process's side of the workers: starts, watches and restarts them, and turns jobs into futures. No torch."""

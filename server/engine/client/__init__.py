"""The API process's side: EngineClient, and the supervisor that starts and restarts the workers. No torch."""

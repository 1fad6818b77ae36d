"""The API process's side: EngineClient, and the pool of workers with their supervisors. No
torch."""

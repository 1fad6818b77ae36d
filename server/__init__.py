"""The server around the model: HTTP, queue, worker processes, history, metrics."""

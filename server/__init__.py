"""The translation server: HTTP API, queue, worker processes, history, metrics."""

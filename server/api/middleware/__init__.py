"""ASGI middleware, from the outermost: tracing, request_log, body."""

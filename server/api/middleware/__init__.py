"""ASGI middleware, from the outermost: tracing, request_log, cors, request_body, fast_path."""

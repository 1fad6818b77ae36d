"""ASGI middleware, from the outermost: tracing, entrance."""

"""Pure ASGI layers around the application, outermost first: trace, observe, origin, exchange, direct."""

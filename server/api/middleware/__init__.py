"""Pure ASGI layers around the application, outermost first: observe, cross-origin headers, exchange."""

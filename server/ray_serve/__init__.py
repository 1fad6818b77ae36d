"""The server as a Ray Serve application (extra `ray`): every replica is a whole server with its own
worker."""

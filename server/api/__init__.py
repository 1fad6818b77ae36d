"""HTTP interface: routes, compatible interfaces and middleware. No other folder imports FastAPI."""

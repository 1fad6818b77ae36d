"""Pydantic models of the parameters and the answers of every route. They are also the source of
`/openapi.json`."""

"""Pydantic models of parameters and answers, the source of `/openapi.json`."""

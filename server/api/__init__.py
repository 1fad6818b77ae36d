"""HTTP: routes, dialects and the layers around them. The only importer of FastAPI."""

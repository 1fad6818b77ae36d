"""Translates text: models and routes, segments of a text, sentences on the workers, markup in the
result."""

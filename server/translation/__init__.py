"""Translates texts: models and routes, segments, decoding, checks, the result cache."""

"""Scanners, one a syntax: each finds the inline codes of a text by the published grammar of its
syntax."""

"""Reads and cleans translation memories."""

"""Formats in XML."""

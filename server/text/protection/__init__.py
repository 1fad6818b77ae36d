"""Spans that every translation keeps: they are found, masked, restored and placed; and the terms of glossaries."""

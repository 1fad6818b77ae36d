"""Adapts a model to a translation memory."""

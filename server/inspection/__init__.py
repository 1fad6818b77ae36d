"""Attention maps of translations as numbers and pictures, and the steps of a search."""

"""Attention of a served translation as numbers and pictures, and the steps of a search."""

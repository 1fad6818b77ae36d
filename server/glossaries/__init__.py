"""Glossaries: lists of terms with their translations, which belong to an API key."""

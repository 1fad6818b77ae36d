"""The terms of glossaries: found in a text, and written in its translation."""

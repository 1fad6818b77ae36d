"""Import from Marian's own layout."""

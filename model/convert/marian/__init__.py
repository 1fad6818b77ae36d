"""Import from Marian's layout."""

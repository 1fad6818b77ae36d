"""Import from and export to Hugging Face's Marian layout."""

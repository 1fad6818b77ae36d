"""HTML and XML: scanning, passages, and marks that follow their words into the translation."""

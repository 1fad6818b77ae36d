"""One router per file."""

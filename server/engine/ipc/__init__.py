"""What the API process and the workers both speak: messages, options and their transport. No torch."""

"""Text to text: models and language pairs, preprocessing, one sentence to the worker and back."""

"""Text processing without a model: sentences, scripts, numbers, placeholders, markup, language detection."""

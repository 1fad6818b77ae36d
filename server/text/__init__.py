"""Text processing without a model: sentences, scripts, numbers, codes, markup, language
detection."""

"""Marian and OPUS-MT models: import from Hugging Face's layout and from Marian's own, export to Hugging Face and CTranslate2."""

"""Import of Marian and OPUS-MT models (Hugging Face or Marian layout), export to Hugging Face and CTranslate2."""

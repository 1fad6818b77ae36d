"""Import of Marian, M2M100 and NLLB models (Hugging Face or Marian layout), export to Hugging Face and CTranslate2."""

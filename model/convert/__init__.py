"""Import of models of Marian, Hugging Face (Marian, M2M100, NLLB), CTranslate2 and Argos, and
export to the last three."""

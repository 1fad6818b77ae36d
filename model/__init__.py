"""The Transformer: shape, layers, cache, tokenizer, search, backends, conversion, training.
Importing it imports no torch."""

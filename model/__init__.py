"""The Transformer: shape, layers, cache, search, tokenizer, training. Knows no HTTP; importing it imports no torch."""

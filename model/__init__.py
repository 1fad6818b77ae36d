"""The Transformer: shape, layers, cache, search, tokenizer, training. Knows nothing of HTTP. Importing this package imports no torch."""

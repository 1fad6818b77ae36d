"""Data preparation: from text files to batches of token ids."""

"""Numbers made from attention weights and hidden states: head statistics and word alignments. NumPy only, no torch."""

"""Analysis of attention weights and hidden states: head statistics and word alignment. NumPy
only."""

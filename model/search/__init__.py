"""Greedy and beam search over any backend."""

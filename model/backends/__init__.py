"""Implementations that run a Transformer: PyTorch, CUDA graphs, or the C++ engine for CPUs."""

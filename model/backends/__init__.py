"""What runs a Transformer: PyTorch, CUDA graphs, or the C++ engine for CPUs."""

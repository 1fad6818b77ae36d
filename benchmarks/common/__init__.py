"""Code shared by several benchmarks."""

"""The CPU backend: the Transformer in C++ with AVX-512 or AVX2, int8 and float32. Optional;
compiled on first use.

docs/cpu-engine.md describes how it works and what takes its time.
"""

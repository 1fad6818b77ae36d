"""The CPU engine: the Transformer in C++ with AVX-512 or AVX2 (int8 and float32), compiled on first use and never required.

docs/native-engine.md says how it works and where its time goes.
"""

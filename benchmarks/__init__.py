"""Measurements: translation quality, the engine beside its peers, and a server under load. `python
-m benchmarks.NAME --help`."""

"""Error rate of word alignments. `python -m benchmarks.alignment --help`."""

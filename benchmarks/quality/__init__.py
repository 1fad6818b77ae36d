"""Quality of translations and of word alignments. `python -m benchmarks.quality --help`."""

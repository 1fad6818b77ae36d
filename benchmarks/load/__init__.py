"""Speed of the server under HTTP load. `python -m benchmarks.load --help`."""

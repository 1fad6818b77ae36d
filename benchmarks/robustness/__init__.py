"""Overload, killed workers and one greedy caller. `python -m
benchmarks.robustness --help`."""

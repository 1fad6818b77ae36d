"""Overload, killed workers, a stop, one greedy caller and long runs. `python -m
benchmarks.robustness --help`."""

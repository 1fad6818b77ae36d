"""Imported models compared with the engines that they come from. `python -m benchmarks.families
--help`."""

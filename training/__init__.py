"""Training: data preparation, the training loop, and packaging of a model folder. See `python -m
training --help`."""

"""Training: data, loss, schedule, optimisers, trainer. `python -m model.training --help`."""

"""The training loop: loss, optimisers, checkpoints, validation."""

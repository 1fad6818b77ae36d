"""The training loop: loss, optimisers, checkpoints and validation."""

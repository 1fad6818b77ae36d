"""Records what modules of PyTorch read and return."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

Passed = dict[nn.Module, tuple[Tensor, Tensor]]
"""Input and output of the last call of each module."""


@contextmanager
def recorded(modules: Iterable[nn.Module]) -> Iterator[Passed]:
    """Yields a dictionary that collects what these modules read and return while the block runs."""
    passed: Passed = {}

    def keep(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        passed[module] = inputs[0], output

    hooks = [module.register_forward_hook(keep) for module in modules]
    try:
        yield passed
    finally:
        for hook in hooks:
            hook.remove()

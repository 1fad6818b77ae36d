"""The gradients of all parameters in one buffer."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, distributed, nn


class Gradients:
    """Allocates the gradients of `parameters` as parts of one buffer, so that each operation below is a single kernel.

    With one buffer for each parameter, averaging over two processes took more than twice as long. Parameters are of one
    type and on one device. Their `grad` must not be replaced.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        listed = list(parameters)
        sizes = [parameter.numel() for parameter in listed]
        self._buffer: Tensor = torch.zeros(sum(sizes), dtype=listed[0].dtype, device=listed[0].device)
        for parameter, part in zip(listed, self._buffer.split_with_sizes(sizes), strict=True):
            parameter.grad = part.view_as(parameter)

    def average(self, ranks: int) -> None:
        """Averages the gradients over all ranks."""
        if ranks > 1:
            distributed.all_reduce(self._buffer)
            self._buffer /= ranks

    def clip(self, limit: float) -> None:
        """Scales the gradients so that their common norm is at most `limit` (Pascanu et al. 2013)."""
        self._buffer *= (limit / (self._buffer.norm() + 1e-6)).clamp(max=1.0)

    def zero(self) -> None:
        """Sets all gradients to zero."""
        self._buffer.zero_()

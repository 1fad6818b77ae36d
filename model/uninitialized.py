"""Building a module whose weights are about to be loaded: nothing is initialised, so nothing is computed or touched.

The usual way, the meta device, runs even `arange` through torch's reference implementations, which import the compiler:
a second of time and 100 MB of memory that only these few lines would need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_FILLING = ("normal_", "uniform_", "zero_", "fill_")


class Uninitialized(TorchFunctionMode):
    """Within this context, filling a tensor does nothing: `with Uninitialized(): module = Module()`."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__module__", None) == torch.nn.init.__name__ or getattr(func, "__name__", "") in _FILLING:
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)

"""Construction of modules without initialising their weights, for weights that are loaded afterwards.

The meta device would import torch's compiler for operations such as `arange`: one second and 100 MB of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_FILLING = ("normal_", "uniform_", "zero_", "fill_")


class Uninitialized(TorchFunctionMode):
    """Context in which functions that fill tensors do nothing: `with Uninitialized(): module = Module()`."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__module__", None) == torch.nn.init.__name__ or getattr(func, "__name__", "") in _FILLING:
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)

"""Muon (Jordan 2024): momentum with orthogonalised updates, computed for all matrices of one shape
in batched products."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from training.loop.hardware import has_bfloat16_products

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_STEPS = 5
_EPSILON = 1e-7


class Muon(torch.optim.Optimizer):
    """Computes the same update as torch.optim.Muon and has the same state.

    The update is Nesterov momentum with decoupled weight decay; rates are scaled by sqrt(max(1,
    rows / columns)). torch.optim.Muon orthogonalises one matrix after another, which takes about a
    thousand small kernels a step. Here matrices of one shape are stacked, which uses a GPU better.
    Raises ValueError for parameters that are not matrices.
    """

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        rate: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(matrices, {"lr": rate, "momentum": momentum, "weight_decay": weight_decay})
        if any(p.dim() != 2 for group in self.param_groups for p in group["params"]):
            raise ValueError(
                "Muon updates matrices only: use another optimiser for vectors and embeddings."
            )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient. Returns the loss of `closure`, or None."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes.setdefault(parameter.shape, []).append(parameter)
            for parameters in shapes.values():
                self._update(parameters, group["lr"], group["momentum"], group["weight_decay"])
        return loss

    def _update(
        self, parameters: list[Tensor], rate: float, momentum: float, weight_decay: float
    ) -> None:
        """Updates parameters (R, C) of one shape."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        buffers = [self._momentum(p) for p in parameters]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        updates = torch.stack(torch._foreach_lerp(gradients, buffers, momentum))  # (N, R, C)
        rows, columns = parameters[0].shape
        orthogonal = orthogonalise(updates).to(parameters[0].dtype)
        torch._foreach_mul_(parameters, 1 - rate * weight_decay)
        torch._foreach_add_(
            parameters, list(orthogonal.unbind()), alpha=-rate * max(1.0, rows / columns) ** 0.5
        )

    def _momentum(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        buffer: Tensor = state["momentum_buffer"]
        return buffer


def orthogonalise(updates: Tensor) -> Tensor:
    """Returns the matrices (N, R, C) with singular values near 1, by five quintic Newton-Schulz
    steps.

    Uses bfloat16 on devices with bfloat16 hardware and float32 on others, where emulation would
    take about 30 times as long.
    """
    x = updates.to(torch.bfloat16 if has_bfloat16_products(updates.device) else torch.float32)
    flat = x.shape[1] > x.shape[2]
    if flat:
        x = x.mT
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=_EPSILON)
    if x.is_cpu and x.dtype == torch.bfloat16:
        x = x.contiguous()  # products of transposed matrices take up to twice the time
    a, b, c = _COEFFICIENTS
    for _ in range(_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if flat else x

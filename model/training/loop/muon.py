"""Muon (Jordan 2024): momentum whose matrices are orthogonalised; all matrices of one shape in one batched product."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from model.training.loop.hardware import multiplies_bfloat16

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_STEPS = 5
_EPSILON = 1e-7


class Muon(torch.optim.Optimizer):
    """The same update as torch.optim.Muon (Nesterov momentum, decoupled weight decay, rates scaled by
    sqrt(max(1, rows / columns))), whose state it shares. That one orthogonalises matrix after matrix, some thousand
    small kernels a step; here the matrices of a shape are stacked, which keeps a GPU busy.

    Parameters are matrices; those without a gradient stay as they are.
    """

    def __init__(self, matrices: Iterable[nn.Parameter], rate: float, momentum: float = 0.95, weight_decay: float = 0.0) -> None:
        super().__init__(matrices, {"lr": rate, "momentum": momentum, "weight_decay": weight_decay})
        if any(p.dim() != 2 for group in self.param_groups for p in group["params"]):
            raise ValueError("Muon is for matrices: give vectors and embeddings to another optimiser.")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes.setdefault(parameter.shape, []).append(parameter)
            for parameters in shapes.values():
                self._update(parameters, group["lr"], group["momentum"], group["weight_decay"])
        return loss

    def _update(self, parameters: list[Tensor], rate: float, momentum: float, weight_decay: float) -> None:
        """One step of parameters (R, C) that all have one shape."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        buffers = [self._momentum(p) for p in parameters]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        updates = torch.stack(torch._foreach_lerp(gradients, buffers, momentum))  # (N, R, C)
        rows, columns = parameters[0].shape
        orthogonal = orthogonalise(updates).to(parameters[0].dtype)
        torch._foreach_mul_(parameters, 1 - rate * weight_decay)
        torch._foreach_add_(parameters, list(orthogonal.unbind()), alpha=-rate * max(1.0, rows / columns) ** 0.5)

    def _momentum(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        buffer: Tensor = state["momentum_buffer"]
        return buffer


def orthogonalise(updates: Tensor) -> Tensor:
    """Five quintic Newton-Schulz steps: (N, R, C) -> (N, R, C) with singular values near 1. In bfloat16 where the device
    multiplies it, else in float32: a CPU without such products takes some thirty times as long to imitate them."""
    x = updates.to(torch.bfloat16 if multiplies_bfloat16(updates.device) else torch.float32)
    flat = x.shape[1] > x.shape[2]
    if flat:
        x = x.mT
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=_EPSILON)
    if x.dtype == torch.float32 and x.shape[2] >= 2 * x.shape[1]:
        x = _by_gram(x) @ x
    else:
        a, b, c = _COEFFICIENTS
        for _ in range(_STEPS):
            gram = x @ x.mT
            x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if flat else x


def _by_gram(x: Tensor) -> Tensor:
    """The factor (N, R, R) by which the steps multiply x (N, R, C) from the left. All of them are polynomials of the Gram
    matrix, so wide matrices take a third fewer multiplications; in bfloat16 its rounding would be too coarse."""
    a, b, c = _COEFFICIENTS
    gram = x @ x.mT
    factors = []
    for _ in range(_STEPS):
        factors.append(torch.baddbmm(gram, gram, gram, beta=b, alpha=c))
        factors[-1].diagonal(dim1=1, dim2=2).add_(a)
        if len(factors) < _STEPS:
            gram = factors[-1] @ gram @ factors[-1]
    return reduce(torch.matmul, factors)  # they commute

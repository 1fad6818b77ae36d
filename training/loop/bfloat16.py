"""Training in bfloat16 on a CPU that multiplies such numbers (AMX, AVX-512 BF16).

M rows (positions of a batch), K inputs, N outputs, V vocabulary. Sums within products are float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from model.transformer import Transformer
from training.data.batches import PADDING

_LOSS_ROWS, _PADDING = 2048, 128
"""Positions whose logits are computed together; the last ones are padded to a multiple of
_PADDING."""


class BFloat16(TorchFunctionMode):
    """While active, linear layers compute in bfloat16, and norms return it. Parameters and
    gradients stay float32."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is functional.linear:
            return _linear(*args, **(kwargs or {}))
        output = func(*args, **(kwargs or {}))
        return output.to(torch.bfloat16) if func is functional.layer_norm else output


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (..., K), weight (N, K), bias (N,) -> (..., N)."""
    rows = x.reshape(-1, x.shape[-1]).to(torch.bfloat16)
    output: Tensor = _Linear.apply(rows, weight, bias)  # type: ignore[no-untyped-call]
    return output.view(*x.shape[:-1], -1)


class _Linear(torch.autograd.Function):
    """x (M, K) in bfloat16, weight (N, K), bias (N,) -> (M, N)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rounded = weight.to(torch.bfloat16)
        ctx.save_for_backward(x, rounded)
        ctx.has_bias = bias is not None
        # The product adds the bias: a pass of its own took up to half of the product's time.
        return functional.linear(x, rounded, None if bias is None else bias.to(torch.bfloat16))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x, rounded), gradient = ctx.saved_tensors, gradients[0].contiguous()
        dx = torch.mm(gradient, rounded) if ctx.needs_input_grad[0] else None
        return dx, _weight_gradient(gradient, x), gradient.sum(0) if ctx.has_bias else None


def _weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """gradient (M, N) transposed @ x (M, K) -> (N, K). The product of a transposed matrix takes up
    to twice the time without a copy, so the narrower matrix is copied."""
    if gradient.shape[1] > x.shape[1]:
        product = (x.t().contiguous() @ gradient).t()
        return product.to(torch.float32, memory_format=torch.contiguous_format)
    return (gradient.t() if gradient.shape[1] == x.shape[1] else gradient.t().contiguous()) @ x


def _padded(x: Tensor) -> Tensor:
    return functional.pad(x, (0, 0, 0, -len(x) % _PADDING))


def projected_loss(
    model: Transformer, features: Tensor, labels: Tensor, smoothing: float
) -> Tensor:
    """Computes `label_loss` with logits only for labels that are not padding, which are not
    kept."""
    places = (labels.flatten() != PADDING).nonzero().squeeze(1)
    rows = features.flatten(0, 1).index_select(0, places).to(torch.bfloat16)
    arguments = (rows, *model.output_projection, labels.flatten()[places], smoothing)
    loss: Tensor = _ProjectedLoss.apply(*arguments)  # type: ignore[no-untyped-call]
    return loss


class _ProjectedLoss(torch.autograd.Function):
    """Mean loss of the labels (M,) from x (M, K) in bfloat16, weight (V, K) and bias (V,)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
    ) -> Tensor:
        """Computes the gradients too, part by part. Those of the smoothing are equal for the whole
        vocabulary, so they are subtracted at the end."""
        rounded, mean = weight.to(torch.bfloat16), weight.mean(0)
        dx, dweight = torch.empty_like(x), torch.zeros_like(weight)
        dbias = None if bias is None else torch.full_like(bias, -smoothing * len(x) / len(bias))
        loss = torch.zeros(())
        for begin in range(0, len(x), _LOSS_ROWS):
            place = slice(begin, begin + _LOSS_ROWS)
            rows, label = _padded(x[place]), labels[place]
            # (m, V)
            logits = functional.linear(
                rows, rounded, None if bias is None else bias.to(torch.bfloat16)
            )
            gradient = torch.softmax(logits, dim=1)
            at = torch.arange(len(label)), label
            distance = logits[at].float() - x[place].float() @ mean
            loss += smoothing * distance.sum() - gradient[at].float().clamp(min=1e-38).log().sum()
            gradient[at] -= 1 - smoothing
            dx[place] = torch.mm(gradient, rounded)[: len(label)] - smoothing * mean
            dweight += _weight_gradient(gradient, rows)
            if dbias is not None:
                dbias += gradient[: len(label)].sum(0)
        if bias is not None:
            loss -= smoothing * bias.mean() * len(x)
        dweight -= smoothing / len(weight) * x.sum(0, dtype=torch.float32)
        ctx.save_for_backward(dx, dweight, dbias)
        return loss / len(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scale = gradients[0] / len(ctx.saved_tensors[0])
        return *(None if part is None else part * scale for part in ctx.saved_tensors), None, None

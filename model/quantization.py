"""int8 matrices for the CPU in PyTorch: a scale per output channel and per row of activations, exact integer sums.

The rounding rule is that of the CPU backend (csrc/simd.h): with the range of a row, which is max |x| of activations and
`row_ranges` of weights, q = round_half_even(x * (127 / range)) and x ~ q * (range / 127). With a scale per row, a result
does not depend on the other rows of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor, nn

from model.calibration import Float32, for_int8, row_ranges
from model.checkpoint import Uninitialized
from model.config import ModelConfig
from model.transformer import Transformer

_EXACT_TERMS = 1024
"""This many int8 products sum to less than 2^24, which is exact in float32 in any order."""


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Quantises rows of activations: x (..., K) float -> int8 (..., K) and float32 scales (..., 1)."""
    x = x.float()
    return _rounded(x, x.abs().amax(dim=-1, keepdim=True))


def quantize_weight(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantises a matrix: weight (N, K) float -> int8 (N, K) and float32 scales (N, 1)."""
    weight = weight.detach().float()
    return _rounded(weight, torch.from_numpy(row_ranges(weight.numpy()))[:, None])


def _rounded(x: Tensor, ranges: Tensor) -> tuple[Tensor, Tensor]:
    inverse = torch.where(ranges > 0, 127.0 / ranges, torch.zeros_like(ranges))
    return (x * inverse).round().clamp(-127, 127).to(torch.int8), ranges / 127.0


def integer_product(left: Tensor, right: Tensor) -> Tensor:
    """Multiplies int8 matrices exactly: left (M, K), right (N, K) -> left right^T (M, N), int32."""
    if _exact_int_mm():
        return torch._int_mm(left, right.t())
    total = torch.zeros(left.shape[0], right.shape[0], dtype=torch.int32)
    for start in range(0, left.shape[1], _EXACT_TERMS):
        part = slice(start, start + _EXACT_TERMS)
        total += (left[:, part].float() @ right[:, part].float().t()).to(torch.int32)
    return total


@cache
def _exact_int_mm() -> bool:
    """Returns True if torch's integer product is exact here. Kernels for processors without VNNI saturate."""
    left = torch.full((4, 64), 127, dtype=torch.int8)
    for right in (left, -left):
        try:
            product = torch._int_mm(left, right.t())
        except RuntimeError:
            return False
        if not torch.equal(product, (left.int() @ right.int().t())):
            return False
    return True


class QuantizedLinear(nn.Module):
    """y = x W^T + b with W (N, K) int8 and a scale per output. Replaces nn.Linear in evaluation."""

    weight: Tensor
    scale: Tensor

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight)  # (N, K) int8
        self.register_buffer("scale", scale)  # (N, 1)
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone(), requires_grad=False)

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None) -> QuantizedLinear:
        """Quantises a float weight (N, K)."""
        return cls(*quantize_weight(weight), bias)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., K) -> (..., N)."""
        rows, scales = quantize_rows(x.reshape(-1, x.shape[-1]))
        y = integer_product(rows, self.weight).float() * (scales * self.scale.t())
        if self.bias is not None:
            y = y + self.bias
        return y.view(*x.shape[:-1], -1)


class QuantizedEmbedding(nn.Module):
    """Embedding with an int8 table (V, d_model) and a scale per row."""

    weight: Tensor
    scale: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        table, scale = quantize_weight(weight)
        self.register_buffer("weight", table)
        self.register_buffer("scale", scale)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (...) -> (..., d_model) float32."""
        return self.weight[ids].float() * self.scale[ids]


class QuantizedTransformer(Transformer):
    """A Transformer whose matrices are int8; LayerNorm, softmax, keys and values stay float32. Only for evaluation."""

    def __init__(self, config: ModelConfig) -> None:
        with Uninitialized():
            super().__init__(config)

    def logits(self, features: Tensor) -> Tensor:
        """Pre-softmax projection: features (..., d_model) -> (..., V)."""
        logits: Tensor = self.projection(features)
        return logits


def quantize(transformer: Transformer) -> QuantizedTransformer:
    """Returns a copy with int8 matrices and corrected biases (model/calibration.py)."""
    config = transformer.config
    copy = QuantizedTransformer(config)
    bias = transformer.output_bias if config.output_bias else None
    embedding = QuantizedEmbedding(transformer.embedding.weight)
    tied = config.tied_embeddings
    if tied:
        projection = QuantizedLinear(embedding.weight, embedding.scale, bias)
    else:
        projection = QuantizedLinear.of(transformer.projection.weight, bias)
        copy.set_submodule("source_embedding", QuantizedEmbedding(transformer.source_embedding.weight))
    tensors = _calibrated(transformer)
    for name, module in transformer.named_modules():
        if isinstance(module, nn.Linear) and name != "projection":
            corrected = None if module.bias is None else torch.tensor(tensors[f"{name}.bias"])
            copy.set_submodule(name, QuantizedLinear.of(module.weight, corrected))
        elif isinstance(module, nn.LayerNorm):
            copy.set_submodule(name, _layer_norm(module, torch.tensor(tensors[f"{name}.bias"])))
        elif isinstance(module, nn.Embedding) and "embedding" not in name:
            copy.set_submodule(name, module)
    copy.set_submodule("embedding", embedding)
    copy.add_module("projection", projection)
    if config.output_bias:
        copy.output_bias = transformer.output_bias
    if "position_table" in dict(transformer.named_buffers()):
        copy.register_buffer("position_table", transformer.get_buffer("position_table"), persistent=False)
    return copy.eval()


def _calibrated(transformer: Transformer) -> Mapping[str, Float32]:
    tensors = {name: tensor.detach().float().cpu().numpy() for name, tensor in transformer.state_dict().items()}
    buffers = dict(transformer.named_buffers())
    table = tensors.get("positions.weight")
    if "position_table" in buffers:
        table = buffers["position_table"].float().cpu().numpy()
    return for_int8(transformer.config, tensors, table)


def _layer_norm(original: nn.LayerNorm, bias: Tensor) -> nn.LayerNorm:
    """A LayerNorm with another bias."""
    norm = nn.LayerNorm(original.normalized_shape, eps=original.eps)
    norm.weight, norm.bias = original.weight, nn.Parameter(bias, requires_grad=False)
    return norm

"""Small random models for tests of the CPU backend."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from model.backends.cpu.backend import CpuBackend, Precision
from model.backends.cpu.build import build
from model.backends.cpu.isa import CpuBackendUnavailable
from model.backends.cpu.weights import unsupported
from model.backends.torch.backend import TorchBackend
from model.config import ModelConfig
from model.int8_calibration import for_int8, row_ranges
from model.search.backend_interface import Backend, StepOutput
from model.search.driver import translate
from model.search.options import DecodingOptions
from model.shortlist import Shortlist
from model.transformer import Transformer
from model.weight_files import position_table
from tests.support.models import random_models

try:
    LIBRARY, REASON = build(), ""
except CpuBackendUnavailable as unavailable:
    LIBRARY, REASON = None, str(unavailable)

needs_cpu_backend = pytest.mark.skipif(LIBRARY is None, reason=REASON)
PRECISIONS: tuple[Precision, ...] = ("float32", "int8")


def supported(changes: dict[str, Any]) -> bool:
    return unsupported(ModelConfig(vocab_size=200, **{**SHAPE, **changes})) is None


SHAPE = {
    "d_model": 64,
    "heads": 2,
    "d_ff": 96,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "max_length": 64,
}
VARIANTS: dict[str, dict[str, Any]] = {
    **{name: changes for name, changes in random_models.VARIANTS.items() if supported(changes)},
    "odd vocabulary": {"vocab_size": 67, "output_bias": True},
    "many narrow heads": {"heads": 4, "d_ff": 16},
    "one wide head": {"heads": 1, "d_model": 128, "encoder_layers": 1},
    "heads of 96": {"heads": 2, "d_model": 192, "decoder_layers": 1},
    "deep recurrence with heads of 48": {
        "recurrence": "ssru",
        "norm": "pre",
        "d_model": 96,
        "decoder_layers": 4,
    },
    "large epsilon, deep decoder": {"norm_epsilon": 1e-3, "decoder_layers": 4},
}


def tiny(**changes: Any) -> Transformer:
    """Returns a random Transformer whose norm weights and biases differ from their initial
    values."""
    torch.manual_seed(7)
    transformer = Transformer(ModelConfig(**{"vocab_size": 200, **SHAPE, **changes})).eval()
    with torch.no_grad():
        for parameter in transformer.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return transformer


def cpu_backend(
    transformer: Transformer,
    precision: Precision,
    *,
    slots: int = 16,
    threads: int = 1,
    shortlist: Shortlist | None = None,
) -> CpuBackend:
    """Returns a CPU backend with the weights of `transformer`."""
    assert LIBRARY is not None
    assert unsupported(transformer.config) is None
    tensors = {name: tensor.numpy() for name, tensor in transformer.state_dict().items()}
    positions = position_table(transformer.config, tensors)
    return CpuBackend(
        LIBRARY,
        transformer.config,
        tensors,
        positions,
        slots=slots,
        threads=threads,
        precision=precision,
        shortlist=shortlist,
    )


def torch_backend(
    transformer: Transformer, precision: Precision, *, slots: int = 16
) -> TorchBackend:
    """Returns a torch backend with the same weights, for int8 with the rounding of the CPU
    backend."""
    return TorchBackend(rounded(transformer) if precision == "int8" else transformer, slots)


class _Rounded(Transformer):
    def logits(self, features: Tensor) -> Tensor:
        head = self.embedding if self.config.tied_embeddings else self.projection
        logits = _int8_product(features, head.weight)
        return logits + self.output_bias if self.config.output_bias else logits


@torch.no_grad()
def rounded(transformer: Transformer) -> Transformer:
    """Returns a copy with the integers and the corrected biases of the CPU backend; keys and values
    stay float32."""
    config = transformer.config
    tensors = {name: tensor.numpy() for name, tensor in transformer.state_dict().items()}
    corrected, _ = for_int8(config, tensors, position_table(config, tensors))
    copy = _Rounded(config)
    copy.load_state_dict({name: torch.tensor(corrected[name]) for name in tensors})
    for name, module in copy.named_modules():
        if isinstance(module, nn.Linear):
            module.forward = partial(_int8_linear, module)
        elif isinstance(module, nn.Embedding) and not name.endswith("positions"):
            integers, scales = _integers(
                module.weight, torch.from_numpy(row_ranges(module.weight.numpy()))[:, None]
            )
            module.weight.copy_(integers * scales)
    return copy.eval()


def _int8_linear(linear: nn.Linear, x: Tensor) -> Tensor:
    product = _int8_product(x, linear.weight)
    return product if linear.bias is None else product + linear.bias


def _int8_product(x: Tensor, weight: Tensor) -> Tensor:
    """x (..., K), weight (N, K) -> (..., N): the exact product of the integers of both."""
    rows, scales = _integers(x, x.abs().amax(-1, keepdim=True))
    columns, ranges = _integers(
        weight, torch.from_numpy(row_ranges(weight.detach().numpy()))[:, None]
    )
    return (rows.double() @ columns.double().T).float() * (scales * ranges.T)


def _integers(x: Tensor, ranges: Tensor) -> tuple[Tensor, Tensor]:
    """The rounding rule of csrc/kernels/simd.h: rows x (..., K), ranges (..., 1) -> integers and
    scales (..., 1)."""
    inverse = torch.where(ranges > 0, 127.0 / ranges, torch.zeros_like(ranges))
    return (x * inverse).round().clamp(-127, 127), ranges / 127.0


def sentences(config: ModelConfig, lengths: Sequence[int]) -> list[list[int]]:
    """Returns random sources of the given lengths."""
    random = np.random.default_rng(3)
    vocabulary = config.source_vocab_size or config.vocab_size
    return [random.integers(4, vocabulary, size=length).tolist() for length in lengths]


def decode(
    backend: Backend,
    sources: Sequence[Sequence[int]],
    slots: Sequence[int],
    targets: Sequence[Sequence[int]],
    *,
    candidates: int = 5,
) -> list[StepOutput]:
    """Returns the output of each teacher-forced step; all rows are decoded in one batch."""
    backend.prefill(sources, slots)
    steps = len(targets[0])
    outputs = [
        backend.step(slots, [row[i] for row in targets], candidates, [-1] * len(slots))
        for i in range(steps)
    ]
    backend.free(slots)
    return outputs


def check_targets_do_not_depend_on_the_batch(precision: Precision) -> None:
    """Checks that 200 sentences have equal targets when decoded alone, together and in another
    order."""
    transformer = tiny()
    config = transformer.config
    random = np.random.default_rng(11)
    sources = sentences(config, random.integers(1, 40, size=200).tolist())
    options = DecodingOptions(max_length=12)
    together = translate(
        cpu_backend(transformer, precision, slots=64, threads=2), sources, options, config
    )
    order = random.permutation(200).tolist()
    shuffled = translate(
        cpu_backend(transformer, precision, slots=48), [sources[i] for i in order], options, config
    )
    alone = cpu_backend(transformer, precision, slots=1)
    assert together == [translate(alone, [source], options, config)[0] for source in sources]
    assert [together[i] for i in order] == shuffled

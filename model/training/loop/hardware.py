"""What the training computes on: the device, its arithmetic, compiled layers, and how much of its peak is used."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from model.config import ModelConfig
from model.training.loop.loss import Projection, projection_loss
from model.transformer import Transformer

_PEAKS = {
    "GB200": 2250, "B200": 2250, "H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312, "L40S": 362, "L40": 181, "A40": 150,
    "L4": 121, "A10": 125, "RTX 4090": 165, "RTX 3090": 71,
}  # fmt: skip
"""Dense bfloat16 TFLOP/s by the vendor's data sheets, by a part of torch's name of the device; the first match counts."""


def ranks() -> tuple[int, int]:
    """This process's rank and the number of ranks, as torchrun tells them."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def training_device() -> torch.device:
    """This rank's GPU, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    # It plans anew for every shape of a batch, and there are many.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether the device has bfloat16 products of its own. A CPU without them imitates them, many times slower."""
    return device.type != "cpu" or torch.cpu._is_avx512_bf16_supported()


def autocast(device: torch.device) -> AbstractContextManager[Any]:
    """bfloat16 products where the device multiplies them faster than float32."""
    if multiplies_bfloat16(device):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def compile_layers(model: Transformer, backend: str = "inductor") -> Projection:
    """Compile every layer for all shapes at once, in place, and the loss, which is returned.

    The layers of a stack share what was compiled for the first, so that compiling takes a fraction of the time that the
    whole model would. `plain()` switches it off for a while.
    """
    for layer in (*model.encoder, *model.decoder):
        if isinstance(layer, nn.Module):
            layer.compile(backend=backend, dynamic=True)
    compiled: Projection = torch.compile(projection_loss, backend=backend, dynamic=True)
    return compiled


def plain() -> AbstractContextManager[Any]:
    """Within it compiled layers run as they were written: nothing is compiled for a few batches of evaluation."""
    stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


def peak_flops(device: torch.device) -> float | None:
    """Multiplications and additions a second in bfloat16 at the device's best; None where it is not known."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((1e12 * peak for part, peak in _PEAKS.items() if part in name), None)


def training_flops(config: ModelConfig, source_tokens: float, target_tokens: float) -> float:
    """Multiplications and additions that learning from so many tokens (no padding) takes: 2 for each weight and token
    forward, twice that backward. Attention's own products, under 2% for sentences, are left out."""
    square, feed_forward = config.d_model**2, 2 * config.d_model * config.d_ff
    encoder = config.encoder_layers * (4 * square + feed_forward)
    decoder = config.decoder_layers * (6 * square + feed_forward)
    crossed = config.decoder_layers * 2 * square  # keys and values of the source
    projection = config.d_model * config.vocab_size
    return 6.0 * (source_tokens * (encoder + crossed) + target_tokens * (decoder + projection))

"""The training device: number format, compiled layers and peak rate."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from model.config import ModelConfig
from model.training.loop.loss import Projection, projection_loss
from model.transformer import Transformer

_PEAKS = {
    "GB200": 2250, "B200": 2250, "H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312, "L40S": 362, "L40": 181, "A40": 150,
    "L4": 121, "A10": 125, "RTX 4090": 165, "RTX 3090": 71,
}  # fmt: skip
"""Dense bfloat16 TFLOP/s of the vendor's data sheets, by a part of torch's device name. The first match is used."""


def rank_and_world_size() -> tuple[int, int]:
    """Returns this process's rank and the number of processes, which torchrun sets in the environment."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def training_device() -> torch.device:
    """Returns this rank's GPU, or the CPU if there is no GPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    # cuDNN's attention makes a new plan for every batch shape, and there are many shapes.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def has_bfloat16_products(device: torch.device) -> bool:
    """Returns whether the device has bfloat16 multiplication in hardware. Other CPUs emulate it, many times slower."""
    return device.type != "cpu" or torch.cpu._is_avx512_bf16_supported()


def autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Returns a context for bfloat16 matrix products, or for float32 on devices without bfloat16 hardware."""
    if has_bfloat16_products(device):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def narrow_activations(model: Transformer) -> None:
    """Makes the layers of `model` on a CPU keep their activations in the type of `autocast`.

    The sum of embeddings and positions is rounded to this type. Otherwise residual connections and norms stay in float32,
    and the input of every matrix product is copied.
    """

    def narrow(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        enabled = output.device.type == "cpu" and torch.is_autocast_enabled("cpu")
        return output.to(torch.get_autocast_dtype("cpu")) if enabled else output

    model.dropout.register_forward_hook(narrow)  # the first module after the embeddings


def compile_layers(model: Transformer, backend: str = "inductor") -> Projection:
    """Compiles every layer of `model` in place, for all shapes at once. Returns the compiled `projection_loss`.

    All layers of a stack use the code compiled for its first layer, so this takes a fraction of the time that compiling the
    whole model would take. `without_compilation` switches compiled code off.
    """
    for layer in (*model.encoder, *model.decoder):
        if isinstance(layer, nn.Module):
            layer.compile(backend=backend, dynamic=True)
    compiled: Projection = torch.compile(projection_loss, backend=backend, dynamic=True)
    return compiled


def without_compilation() -> AbstractContextManager[Any]:
    """Returns a context in which compiled layers run uncompiled, so that no code is compiled for a few validation batches."""
    stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


def peak_flops(device: torch.device) -> float | None:
    """Returns the device's peak bfloat16 rate in FLOP/s, or None if it is unknown."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((1e12 * peak for part, peak in _PEAKS.items() if part in name), None)


def training_flops(config: ModelConfig, source_tokens: float, target_tokens: float) -> float:
    """Returns the floating-point operations of training on this many tokens, without padding.

    Each weight and token counts 2 operations in the forward pass and 4 in the backward pass. The products of attention
    scores are left out; for sentences they are under 2%.
    """
    square, feed_forward = config.d_model**2, 2 * config.d_model * config.d_ff
    encoder = config.encoder_layers * (4 * square + feed_forward)
    decoder = config.decoder_layers * (6 * square + feed_forward)
    cross = config.decoder_layers * 2 * square  # keys and values of cross-attention, once per source token
    projection = config.d_model * config.vocab_size
    return 6.0 * (source_tokens * (encoder + cross) + target_tokens * (decoder + projection))

"""The training device: ranks, number format and compiled layers."""

from __future__ import annotations

import ctypes
import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from model.transformer import Transformer
from training.loop.bfloat16 import BFloat16, projected_loss
from training.loop.loss import LabelLoss, label_loss

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Parameters of mallopt(3)."""


def keep_freed_memory() -> None:
    """Makes glibc keep the memory that torch frees. Otherwise every large temporary of a step is
    mapped anew, which can take most of the time."""
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # another C library
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


def rank_and_world_size() -> tuple[int, int]:
    """Returns this process's rank and the number of processes, which torchrun sets."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def training_device() -> torch.device:
    """Returns this rank's GPU, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    # cuDNN's attention makes a new plan for every batch shape, and there are many shapes.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def has_bfloat16_products(device: torch.device) -> bool:
    """Returns whether the device multiplies bfloat16 in hardware: GPUs from compute capability 8.0.
    Emulation is many times slower."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return torch.cpu._is_avx512_bf16_supported()


def autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Returns a context for bfloat16 matrix products; without that hardware for float16 on a GPU,
    float32 on a CPU."""
    if device.type == "cpu":
        return BFloat16() if has_bfloat16_products(device) else nullcontext()
    return torch.autocast(
        device.type, torch.bfloat16 if has_bfloat16_products(device) else torch.float16
    )


def row_multiple() -> int:
    """Returns a divisor of the number of sentences of a batch. oneDNN compiles and keeps code for
    each number of rows of products in bfloat16, so few different ones save time and memory."""
    return 16 if _bfloat16_on_cpu(training_device()) else 1


def _bfloat16_on_cpu(device: torch.device) -> bool:
    return device.type == "cpu" and has_bfloat16_products(device)


def gradient_scaler(device: torch.device) -> torch.amp.GradScaler:
    """Returns the scaler of the loss, without which small gradients are 0 in float16. In other
    formats it does nothing."""
    return torch.amp.GradScaler(
        device.type, enabled=device.type != "cpu" and not has_bfloat16_products(device)
    )


def label_loss_on(device: torch.device) -> LabelLoss:
    """Returns the form of `label_loss` that fits the products of `autocast`."""
    return projected_loss if _bfloat16_on_cpu(device) else label_loss


def compile_layers(model: Transformer, backend: str = "inductor") -> LabelLoss:
    """Compiles every layer of `model` in place, for all shapes; all layers of a stack use the code
    of the first. Returns the compiled `label_loss`. `without_compilation` switches compiled code
    off."""
    for layer in (*model.encoder, *model.decoder):
        if isinstance(layer, nn.Module):
            layer.compile(backend=backend, dynamic=True)
    compiled: LabelLoss = torch.compile(label_loss, backend=backend, dynamic=True)
    return compiled


def without_compilation() -> AbstractContextManager[Any]:
    """Returns a context in which compiled layers run uncompiled, for a few validation batches."""
    stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance

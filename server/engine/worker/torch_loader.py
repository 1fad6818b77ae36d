"""Opens a model folder on PyTorch: plain steps on a CPU, CUDA graphs on a GPU if possible."""

from __future__ import annotations

import sys

import torch

from model.backends.cuda.device import check_device
from model.backends.cuda.fused_step import KERNELS as TORCH_KERNELS
from model.backends.cuda.fused_step import SlotKernels
from model.backends.cuda.graphs import GraphedBackend
from model.backends.cuda.self_check import disagreement
from model.backends.cuda.static_cache import FIRST_ROOM
from model.backends.torch.backend import TorchBackend
from model.checkpoint import load_model
from model.model_folder import FolderError, ModelFolder
from model.search.driver import check_trial_sentence
from model.transformer import Transformer
from server.engine.worker.device_config import HAS_BFLOAT16, DeviceConfig

_ALIGNED = 16
"""Triton compiles kernels anew for a number that is not a multiple of it."""


def open_on_cpu(folder: ModelFolder, device: DeviceConfig) -> tuple[TorchBackend, str | None]:
    """Loads a model for plain steps on the CPU. Also returns why another number format is used.
    Raises FolderError."""
    transformer, overflow = _finite_transformer(folder, device)
    return TorchBackend(transformer, device.slots), overflow


def open_on_gpu(
    folder: ModelFolder, device: DeviceConfig, ends: int = 0
) -> tuple[TorchBackend, str, str | None]:
    """Loads a model on a GPU. Returns the backend, its name, and why a faster one is not used.
    Raises FolderError."""
    torch.cuda.set_device(device.device)  # each thread has its own current device
    transformer, overflow = _finite_transformer(folder, device)
    backend, engine, reason = gpu_backend(transformer, device.slots, ends)
    return backend, engine, reason or overflow


def gpu_backend(
    transformer: Transformer, slots: int, ends: int = 0
) -> tuple[TorchBackend, str, str | None]:
    """Returns a backend with CUDA graphs if they compute the same as eager steps, else eager steps.
    Skips the first `ends` ways to decode. Raises an error that broke the device."""
    # it makes a new plan for every shape, and batches have many shapes
    torch.backends.cuda.enable_cudnn_sdp(False)
    device = next(transformer.parameters()).device
    slots, room = _affordable(transformer, slots) if device.type == "cuda" else (slots, FIRST_ROOM)
    attempts, reason = _kernels()
    if ends:
        reason = "The worker ended while it loaded the model with faster kernels."
    for kernels in attempts[ends:]:
        # torch's read all of it in each step
        first = min(room, FIRST_ROOM) if kernels is TORCH_KERNELS else room
        backend = _graphed(transformer, slots, kernels, first)
        if not isinstance(backend, str):
            return backend, "cuda-graphs", reason
        reason = f"CUDA graphs with the kernels of {kernels.name} cannot be used here: {backend}"
        sys.stderr.write(f"{reason}\n")
    return TorchBackend(transformer, slots), "eager", reason


def _graphed(
    transformer: Transformer, slots: int, kernels: SlotKernels, room: int
) -> GraphedBackend | str:
    """Returns a backend with CUDA graphs, or why it cannot be used."""
    backend = GraphedBackend(transformer, slots, capture=True, kernels=kernels, room=room)
    try:
        reason = disagreement(backend)
    except Exception as error:  # noqa: BLE001  a kernel compiler may raise anything; eager steps need none
        if (device := next(transformer.parameters()).device).type == "cuda":
            check_device(device)
        reason = f"{type(error).__name__}: {str(error)[:200]}"
    if reason is None:
        return backend
    backend.close()
    return reason


def _affordable(transformer: Transformer, slots: int) -> tuple[int, int]:
    """Returns how many of `slots` a model gets, and their positions at first: its cache takes at
    most half of the free memory, and a quarter at first."""
    config, parameter = transformer.config, next(transformer.parameters())
    free, _ = torch.cuda.mem_get_info(parameter.device)
    free += torch.cuda.memory_reserved(parameter.device) - torch.cuda.memory_allocated(
        parameter.device
    )
    kinds = 4 if config.recurrence == "none" else 2  # keys and values of both attentions
    position = kinds * config.decoder_layers * config.d_model * parameter.element_size()
    slots = max(1, min(slots, free // 2 // (position * config.max_length)))
    room = max(_ALIGNED, free // 4 // (position * slots) // _ALIGNED * _ALIGNED)
    return slots, min(config.max_length, room)


def _finite_transformer(
    folder: ModelFolder, device: DeviceConfig
) -> tuple[Transformer, str | None]:
    """Returns the Transformer of a folder in the dtype of the device, or where float16 overflows in
    a wider one and why. Raises FolderError."""
    if device.dtype != "float16":
        return _load_transformer(folder, device, device.dtype), None
    try:
        transformer = _load_transformer(folder, device, "float16")
        check_trial_sentence(TorchBackend(transformer, 1), folder.model)
    except FolderError:
        capability = torch.cuda.get_device_capability(device.device) if device.cuda else (0, 0)
        wider = "bfloat16" if capability >= HAS_BFLOAT16 else "float32"
        return _load_transformer(
            folder, device, wider
        ), f"It computes in {wider}: its numbers overflow in float16."
    return transformer, None


def _load_transformer(folder: ModelFolder, device: DeviceConfig, name: str) -> Transformer:
    """Returns the Transformer of a folder in the dtype of this name. Raises FolderError."""
    # another model may be decoding: torch's threads spin on its cores while they wait
    torch.set_num_threads(1)
    # int8 is only computed by the CPU backend.
    dtype = torch.float32 if name == "int8" else getattr(torch, name)
    transformer = load_model(folder, dtype=dtype, device=device.device)
    torch.set_num_threads(device.threads)
    return transformer


def _kernels() -> tuple[list[SlotKernels], str | None]:
    """Returns the kernels of a captured step, best first, and why the best are missing."""
    try:
        from model.backends.cuda.kernels import KERNELS
    except (ImportError, OSError) as error:
        return [TORCH_KERNELS], f"Triton's kernels are not used: {error}"
    return [KERNELS, TORCH_KERNELS], None

"""Opens a model folder on PyTorch: plain steps on a CPU, CUDA graphs on a GPU where they can be used."""

from __future__ import annotations

import sys

import torch

from model.backends.cuda.device_check import check_device
from model.backends.cuda.fused_step import SlotKernels
from model.backends.cuda.graphs import GraphedBackend
from model.backends.cuda.self_check import disagreement
from model.backends.torch.backend import TorchBackend
from model.checkpoint import load_model
from model.model_folder import ModelFolder
from model.transformer import Transformer
from server.engine.worker.device_config import DeviceConfig


def open_on_cpu(folder: ModelFolder, device: DeviceConfig) -> TorchBackend:
    """Loads a model for plain steps on the CPU. Raises FolderError."""
    return TorchBackend(_load_transformer(folder, device), device.slots)


def open_on_gpu(folder: ModelFolder, device: DeviceConfig, ends: int = 0) -> tuple[TorchBackend, str, str | None]:
    """Loads a model on a GPU: its backend, the name of it, and the reason why a faster one is not used. Raises
    FolderError."""
    torch.cuda.set_device(device.device)  # each thread has its own current device
    return gpu_backend(_load_transformer(folder, device), device.slots, ends)


def gpu_backend(transformer: Transformer, slots: int, ends: int = 0) -> tuple[TorchBackend, str, str | None]:
    """Returns a backend with CUDA graphs if they can be captured and compute the same as eager steps; else eager steps.
    Skips the first `ends` ways to decode. Raises an error that broke the device."""
    if transformer.config.recurrence != "none":
        return TorchBackend(transformer, slots), "eager", "Models with a recurrence decode without CUDA graphs."
    torch.backends.cuda.enable_cudnn_sdp(False)  # it makes a new plan for every shape, and batches have many shapes
    reason = "The worker ended while it loaded the model with CUDA graphs." if ends else None
    for kernels in _kernels()[ends:]:
        try:
            backend = GraphedBackend(transformer, slots, capture=True, kernels=kernels)
            reason = disagreement(backend)
        except Exception as error:  # noqa: BLE001  a kernel compiler may raise anything; eager steps need none
            reason = f"CUDA graphs cannot be used here: {type(error).__name__}: {str(error)[:200]}"
            if (device := next(transformer.parameters()).device).type == "cuda":
                check_device(device)
        if reason is None:
            return backend, "cuda-graphs", None
        sys.stderr.write(f"{reason}\n")
    return TorchBackend(transformer, slots), "eager", reason


def _load_transformer(folder: ModelFolder, device: DeviceConfig) -> Transformer:
    """Returns the Transformer of a folder in this worker's dtype. Raises FolderError."""
    torch.set_num_threads(1)  # another model may be decoding: torch's threads spin on its cores while they wait
    # int8 is only computed by the CPU backend.
    dtype = torch.float32 if device.dtype == "int8" else getattr(torch, device.dtype)
    transformer = load_model(folder, dtype=dtype, device=device.device)
    torch.set_num_threads(device.threads)
    return transformer


def _kernels() -> list[SlotKernels | None]:
    """The kernels of a captured step, best first: those that read each row's own length, or None for torch with
    masks."""
    try:
        from model.backends.cuda.kernels import KERNELS
    except ImportError:
        return [None]
    return [KERNELS, None]

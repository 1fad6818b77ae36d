"""Opens a model folder on the fastest backend that is available: on a CPU the CPU backend, or
PyTorch ("eager") where that cannot be used; on a GPU PyTorch, with CUDA graphs where they can be
used. torch is imported only where it is needed."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from model.backends.cpu.backend import Precision, open_backend
from model.backends.cpu.build import library
from model.backends.cpu.isa import CpuBackendUnavailable, available
from model.backends.interface import InspectableBackend
from model.model_folder import FolderError, ModelFolder, read_folder
from model.search.driver import check_trial_sentence
from server.engine.ipc.messages import ModelLoaded
from server.engine.ipc.options import WorkerOptions
from server.engine.worker.device_config import DeviceConfig, failure_kind
from server.engine.worker.memory import check_memory, free_memory, memory_needed, too_large
from server.errors import ADD_TORCH


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model that is ready to decode. `engine` is "native", "eager" or "cuda-graphs"; `reason` says
    why a faster one is not used, if there is one."""

    folder: ModelFolder
    backend: InspectableBackend
    engine: str
    reason: str | None
    seconds: float


def open_model(
    path: str, device: DeviceConfig, options: WorkerOptions, ends: int = 0
) -> LoadedModel:
    """Loads a model folder on the fastest backend and decodes a trial sentence; see LoadModel for
    `ends`. Raises FolderError, also for a score that is not finite."""
    started = time.monotonic()
    folder = read_folder(Path(path))
    if not device.cuda:
        check_memory(folder, device.dtype)
    backend, engine, reason = _open(folder, device, options, ends)
    check_trial_sentence(backend, folder.model)
    return LoadedModel(folder, backend, engine, reason, time.monotonic() - started)


def try_to_open(
    model: str, folder: str, device: DeviceConfig, options: WorkerOptions, ends: int = 0
) -> tuple[ModelLoaded, LoadedModel | None]:
    """Returns the answer to a LoadModel, and the model if there is no error. Raises an error that
    broke the device."""
    try:
        loaded = open_model(folder, device, options, ends)
    except FolderError as reason:
        # callers see it, and paths are the server's
        error = str(reason).replace(folder, Path(folder).name)
    except MemoryError:
        needed = memory_needed(read_folder(Path(folder)), device.dtype)
        return ModelLoaded(model, error=too_large(needed, free_memory())), None
    except Exception as reason:  # every load is answered, whatever it raises
        if failure_kind(reason, device) is None:
            raise
        traceback.print_exc()
        error = f"The model could not be loaded: {type(reason).__name__}."
    else:
        backend = loaded.backend
        gpu_bytes = getattr(backend, "gpu_bytes", 0)
        return ModelLoaded(
            model, loaded.seconds, bytes=gpu_bytes, shortlist=backend.shortlist
        ), loaded
    return ModelLoaded(model, error=error), None


def _open(
    folder: ModelFolder, device: DeviceConfig, options: WorkerOptions, ends: int
) -> tuple[InspectableBackend, str, str | None]:
    """Returns a backend, its name, and why a faster one is not used."""
    if device.cuda:
        from server.engine.worker.torch_loader import open_on_gpu  # find_device has imported torch

        return open_on_gpu(folder, device, ends)
    reason = cpu_backend_refusal(device, options)
    if reason is None:
        try:
            return _open_on_cpu_backend(folder, device, options), "native", None
        except CpuBackendUnavailable as unavailable:
            reason = str(unavailable)
    try:
        from server.engine.worker.torch_loader import open_on_cpu
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise FolderError(f"{reason} {ADD_TORCH}") from None

    backend, overflow = open_on_cpu(folder, device)
    return backend, "eager", " ".join(filter(None, (reason, overflow)))


def cpu_backend_refusal(device: DeviceConfig, options: WorkerOptions) -> str | None:
    """Returns why this worker on a CPU does not use the CPU backend; None if it does."""
    if device.dtype not in ("int8", "float32"):
        return f"The native engine computes in int8 or float32, not in {device.dtype}."
    try:
        available(options.isa)
    except CpuBackendUnavailable as unavailable:
        return str(unavailable)
    return None


def _open_on_cpu_backend(
    folder: ModelFolder, device: DeviceConfig, options: WorkerOptions
) -> InspectableBackend:
    """Opens a model on the CPU backend. Raises CpuBackendUnavailable if it is not compiled or does
    not have the shape, FolderError."""
    precision: Precision = "int8" if device.dtype == "int8" else "float32"
    compiled = library(options.isa)
    return open_backend(
        folder,
        compiled,
        slots=device.slots,
        threads=device.threads,
        precision=precision,
        shortlist=options.shortlist,
    )

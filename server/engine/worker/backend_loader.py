"""Opens a model folder on the fastest backend that is available on this device.

On a CPU the CPU backend decodes int8 and float32. While it compiles, and where it is not available, PyTorch decodes
("eager"). On a GPU PyTorch decodes, with CUDA graphs where they can be used. torch is imported only where it is needed.
"""

from __future__ import annotations

import time
from pathlib import Path

from model.backends.cpu.backend import open_backend
from model.backends.cpu.build import find
from model.backends.cpu.engine import Precision
from model.backends.cpu.isa import CpuBackendUnavailable, check_cpu
from model.model_folder import FolderError, ModelFolder, read_folder
from model.search.driver import check_trial_sentence
from server.engine.ipc.options import WorkerOptions
from server.engine.worker.device_config import DeviceConfig
from server.engine.worker.runner_interface import LoadedModel, OpenedBackend

COMPILING = "The native engine is being compiled."
NO_TORCH = "This installation has no PyTorch, which would run the model."


def open_model(path: str, device: DeviceConfig, options: WorkerOptions) -> LoadedModel:
    """Loads a model folder on the fastest backend that is ready now, and warms it up. Raises FolderError."""
    started = time.monotonic()
    folder = read_folder(Path(path))
    if device.cuda:
        from server.engine.worker.torch_loader import open_on_gpu  # find_device has imported torch

        return _warmed_up(folder, open_on_gpu(folder, device, options), started)
    reason = cpu_backend_refusal(device, options)
    library = None if reason else find(isa=options.isa)
    if library is not None:
        try:
            return open_on_cpu_backend(folder, library, device, options)
        except CpuBackendUnavailable as unavailable:
            reason = str(unavailable)
    elif reason is None:
        reason = COMPILING
    try:
        from server.engine.worker.torch_loader import open_on_cpu
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise FolderError(f"{reason} {NO_TORCH}") from None

    return _warmed_up(folder, open_on_cpu(folder, device, options, reason), started)


def cpu_backend_refusal(device: DeviceConfig, options: WorkerOptions) -> str | None:
    """Returns why this worker does not use the CPU backend; None if it does, at once or after compiling."""
    if options.engine == "eager":
        return "The eager engine was asked for."
    if device.cuda:
        return "The native engine is for CPUs."
    if device.dtype not in ("int8", "float32"):
        return f"The native engine computes in int8 or float32, not in {device.dtype}."
    try:
        check_cpu(options.isa)
    except CpuBackendUnavailable as unavailable:
        return str(unavailable)
    return None


def open_on_cpu_backend(
    folder: ModelFolder, library: Path, device: DeviceConfig, options: WorkerOptions
) -> LoadedModel:  # fmt: skip
    """Loads a model on the CPU backend. Raises CpuBackendUnavailable for shapes that it does not have, FolderError."""
    started = time.monotonic()
    precision: Precision = "int8" if device.dtype == "int8" else "float32"
    backend = open_backend(
        folder, library, slots=device.slots, threads=device.threads, precision=precision, shortlist=options.shortlist
    )
    return _warmed_up(folder, (backend, "native", None), started)


def _warmed_up(folder: ModelFolder, opened: OpenedBackend, started: float) -> LoadedModel:
    """Decodes a trial sentence, so that lazy initialization does not delay the first request. Raises FolderError where a
    score is not finite: large weights overflow."""
    backend, engine, reason = opened
    check_trial_sentence(backend, folder.model)
    return LoadedModel(folder, backend, engine, reason, time.monotonic() - started)

"""Model folders become backends here: which engine runs them on this device, and why not a faster one.

On a CPU the native engine decodes int8 and float32. While it compiles, or where it cannot, torch decodes ("eager"). On a
GPU torch decodes, with CUDA graphs where they can be used. torch is imported only when something needs it.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from model.analysis.types import AttentionMaps
from model.backends.cpu.backend import CpuBackend, open_backend
from model.backends.cpu.build import find
from model.backends.cpu.engine import Precision
from model.backends.cpu.isa import CpuBackendUnavailable, Isa, check_cpu
from model.backends.cpu.tensors import SafetensorFiles, weight_files
from model.model_folder import ModelFolder, read_folder
from server.engine.ipc.messages import AttentionJob
from server.engine.ipc.options import WorkerOptions

if TYPE_CHECKING:
    from model.backends.cuda.fused_step import SlotKernels
    from model.backends.torch.backend import TorchBackend
    from model.transformer import Transformer

    Backend = CpuBackend | TorchBackend

CPU_SLOTS, GPU_SLOTS = 64, 256
_GPU_FILES = ("/dev/nvidiactl", "/dev/dxg")
"""One of these is there wherever the NVIDIA driver is (Linux, WSL)."""

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Parameters of mallopt(3)."""
COMPILING = "The native engine is being compiled."

EngineName = Literal["native", "eager", "cuda-graphs"]
Made: TypeAlias = "tuple[Backend, EngineName, str | None]"
"""A backend, its engine, and why it is not a faster one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where this worker computes. `device` is torch's name, `count` how many devices of the kind there are."""

    device: str
    count: int
    dtype: str
    threads: int
    slots: int

    @property
    def cuda(self) -> bool:
        return self.device.startswith("cuda")


def find_place(options: WorkerOptions, index: int) -> Place:
    """The device of worker `index`. Raises RuntimeError where the options ask for a GPU and there is none."""
    threads = options.threads or cores()
    dtype: str
    if options.device == "cuda" or (options.device == "auto" and any(Path(file).exists() for file in _GPU_FILES)):
        import torch

        if torch.cuda.is_available():
            dtype = "bfloat16" if options.dtype in ("auto", "int8") else options.dtype
            slots = options.slots or GPU_SLOTS
            return Place(f"cuda:{index}", torch.cuda.device_count(), dtype, threads, slots)
        if options.device == "cuda":
            raise RuntimeError("There is no CUDA device that torch can use; choose device cpu or auto.")
    dtype = _cpu_dtype(options.isa) if options.dtype == "auto" else options.dtype
    return Place("cpu", 1, dtype, threads, options.slots or CPU_SLOTS)


def cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """CPU cores that this process may use: those it is bound to, no more than a container's quota pays for."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        allowed, period = quota.read_text(encoding="ascii").split()
        return max(1, min(bound, math.ceil(int(allowed) / int(period))))
    except (OSError, ValueError):  # no cgroup of version 2, or "max": no quota
        return bound


def _cpu_dtype(isa: Isa) -> str:
    """int8 where the processor multiplies it fast; elsewhere float32 is faster and exact."""
    try:
        check_cpu(isa)
    except CpuBackendUnavailable:
        return "float32"
    return "int8"


@dataclass(slots=True, eq=False)
class Served:
    """A model in memory and ready to decode. `reason` says why no faster engine runs, None where there is none."""

    folder: ModelFolder
    backend: Backend
    engine: EngineName
    reason: str | None
    seconds: float


def open_model(path: str, place: Place, options: WorkerOptions) -> Served:
    """Load a folder on the fastest engine that is ready now, and warm it up. Raises FolderError."""
    begun = time.monotonic()
    folder = read_folder(Path(path))
    if place.cuda:
        return _served(folder, _on_gpu(folder, place, options), begun)
    reason = why_not_native(place, options)
    library = None if reason else find(isa=options.isa)
    if library is not None:
        try:
            return open_native(folder, library, place)
        except CpuBackendUnavailable as unavailable:
            reason = str(unavailable)
    elif reason is None:
        reason = COMPILING
    return _served(folder, _on_cpu(folder, place, reason), begun)


def why_not_native(place: Place, options: WorkerOptions) -> str | None:
    """Why this worker does not decode on the native engine; None if it does, at once or when it is compiled."""
    if options.engine == "eager":
        return "The eager engine was asked for."
    if place.cuda:
        return "The native engine is for CPUs."
    if place.dtype not in ("int8", "float32"):
        return f"The native engine computes in int8 or float32, not in {place.dtype}."
    try:
        check_cpu(options.isa)
    except CpuBackendUnavailable as unavailable:
        return str(unavailable)
    return None


def open_native(folder: ModelFolder, library: Path, place: Place) -> Served:
    """A model on the native engine. Raises CpuBackendUnavailable for shapes it does not have, FolderError."""
    begun = time.monotonic()
    precision: Precision = "int8" if place.dtype == "int8" else "float32"
    backend = open_backend(folder, library, slots=place.slots, threads=place.threads, precision=precision)
    return _served(folder, (backend, "native", None), begun)


def look_inside(backend: Backend, job: AttentionJob) -> AttentionMaps:
    """Attention of a pair, from what decodes. Raises ValueError for what the model cannot read."""
    if isinstance(backend, CpuBackend):
        return backend.attention_maps(job.source, job.target, job.masked_heads, job.vectors_of)
    from model.backends.torch.attention_maps import attention_maps

    return attention_maps(backend.transformer, job.source, job.target, job.masked_heads, job.vectors_of)


def release(served: Served) -> None:
    """Give back what a backend holds beyond Python's memory."""
    if isinstance(served.backend, CpuBackend):
        served.backend.close()


def measure(folder: ModelFolder) -> tuple[int, int]:
    """Parameters and bytes of a folder's weight files, from their headers."""
    files = weight_files(folder.path)
    tensors = SafetensorFiles(files)
    return sum(math.prod(tensors.shape(name)) for name in tensors), sum(file.stat().st_size for file in files)


def _on_cpu(folder: ModelFolder, place: Place, reason: str | None) -> Made:
    from model.backends.torch.backend import TorchBackend

    keep_freed_memory()
    return TorchBackend(_transformer(folder, place), place.slots), "eager", reason


def _on_gpu(folder: ModelFolder, place: Place, options: WorkerOptions) -> Made:
    transformer = _transformer(folder, place)
    if options.engine != "eager":
        return gpu_backend(transformer, place.slots)
    from model.backends.torch.backend import TorchBackend

    return TorchBackend(transformer, place.slots), "eager", "The eager engine was asked for."


def _transformer(folder: ModelFolder, place: Place) -> Transformer:
    """The Transformer of a folder in this worker's arithmetic. Raises FolderError."""
    import torch

    from model.checkpoint import load_model
    from model.quantization import quantize

    torch.set_num_threads(1)  # an engine may be decoding: torch's threads spin while they wait, on its cores
    if place.dtype == "int8":
        transformer: Transformer = quantize(load_model(folder))
        for parameter in transformer.parameters():  # the few floats it shares would keep the whole file mapped
            parameter.data = parameter.data.clone()
    else:
        transformer = load_model(folder, dtype=getattr(torch, place.dtype), device=place.device)
    torch.set_num_threads(place.threads)
    return transformer


def gpu_backend(transformer: Transformer, slots: int) -> Made:
    """Steps from CUDA graphs if they can be captured and compute the same as without; else plain torch."""
    import torch

    from model.backends.cuda.graphs import GraphedBackend, disagreement
    from model.backends.torch.backend import TorchBackend

    torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for every shape, and batches have many
    reason: str | None = None
    for kernels in _kernels():
        try:
            backend = GraphedBackend(transformer, slots, capture=True, kernels=kernels)
            reason = disagreement(backend)
        except Exception as error:  # noqa: BLE001  a compiler of kernels fails in ways of its own; plain torch does not
            reason = f"CUDA graphs cannot be used here: {type(error).__name__}: {str(error)[:200]}"
        if reason is None:
            return backend, "cuda-graphs", None
        sys.stderr.write(f"{reason}\n")
    return TorchBackend(transformer, slots), "eager", reason


def _kernels() -> list[SlotKernels | None]:
    """What a captured step is made of, the best first: kernels that read each row's own length, or torch with masks."""
    try:
        from model.backends.cuda.kernels import KERNELS
    except ImportError:
        return [None]
    return [KERNELS, None]


def keep_freed_memory() -> None:
    """Have glibc keep what torch frees: without this every large temporary of a step is fresh pages from the kernel."""
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # another C library, with habits of its own
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, 1 << 30)


def _served(folder: ModelFolder, made: Made, begun: float) -> Served:
    """A backend that has decoded two tokens of nothing, so that the first caller does not wait for lazy beginnings."""
    backend, engine, reason = made
    config = folder.model
    backend.prefill([[config.eos_id]], [0])
    for token in (config.decoder_start_id, config.eos_id):
        backend.step([0], [token], 1, [-1])
    backend.free([0])
    return Served(folder, backend, engine, reason, time.monotonic() - begun)

"""The device of a worker process, and how it computes there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from model.backends.cpu.isa import CpuBackendUnavailable, Isa, available
from server.engine.ipc.messages import FailureKind
from server.engine.ipc.options import NO_DEVICE, WorkerOptions
from server.process import available_cores

CPU_SLOTS, SMALL_GPU_SLOTS, GPU_SLOTS = 64, 128, 256
_LARGE_GPU = 64
"""Multiprocessors of a GPU with GPU_SLOTS. A step computes all slots, and a lone row waits for it
(estimated, not measured)."""
_GPU_FILES = ("/dev/nvidiactl", "/dev/dxg")
"""One of these exists wherever the NVIDIA driver is installed (Linux, WSL)."""
HAS_BFLOAT16 = (8, 0)
"""Compute capability from which bfloat16 products are in hardware (Ampere); older GPUs have
float16."""


class NoDevice(RuntimeError):
    """The options require a GPU and there is none."""


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """The device of a worker. `device` is torch's name of it, `name` the reported one, and `gpus`
    are the UUIDs of all usable GPUs, if there are several. `slots` is the number of rows that one
    model decodes at once. `reason` says why an existing GPU is not used."""

    device: str
    name: str
    gpus: tuple[str, ...]
    dtype: str
    threads: int
    slots: int
    reason: str | None = None

    @property
    def cuda(self) -> bool:
        return self.device.startswith("cuda")


def find_device(options: WorkerOptions, index: int, pinned: bool = False) -> DeviceConfig:
    """Returns the device of worker `index`: a usable GPU, or the CPU. A `pinned` worker sees a
    single GPU and takes no other device. Raises NoDevice."""
    threads = options.threads or available_cores()
    reason = None
    wanted = pinned or options.device == "cuda"
    if wanted or (options.device == "auto" and any(Path(file).exists() for file in _GPU_FILES)):
        try:
            usable, refusal = _usable_gpus()
        except ModuleNotFoundError:  # an installation for CPUs
            usable, refusal = [], ""
        place = 0 if pinned else index
        if place < len(usable):
            return _on_gpu(options, f"cuda:{index}", usable, place, threads)
        if wanted:
            raise NoDevice(f"{NO_DEVICE} {refusal}".strip())
        reason = f"The GPU is not used: {refusal}" if refusal else None
    dtype = _cpu_dtype(options.isa) if options.dtype == "auto" else options.dtype
    return DeviceConfig("cpu", "cpu", (), dtype, threads, options.slots or CPU_SLOTS, reason)


def _on_gpu(
    options: WorkerOptions, name: str, usable: list[int], place: int, threads: int
) -> DeviceConfig:
    """Returns the configuration of one of the `usable` GPUs. The oldest decides the number format
    of all."""
    import torch

    oldest = min(torch.cuda.get_device_capability(gpu) for gpu in usable)
    half = "bfloat16" if oldest >= HAS_BFLOAT16 else "float16"
    properties = [torch.cuda.get_device_properties(gpu) for gpu in usable]
    large = properties[place].multi_processor_count >= _LARGE_GPU
    return DeviceConfig(
        f"cuda:{usable[place]}",
        name,
        tuple(f"GPU-{each.uuid}" for each in properties) if len(usable) > 1 else (),
        half if options.dtype in ("auto", "int8") else options.dtype,
        threads,
        options.slots or (GPU_SLOTS if large else SMALL_GPU_SLOTS),
    )


def _usable_gpus() -> tuple[list[int], str]:
    """Returns the GPUs that torch can use, and why it cannot use the others."""
    import torch

    if not torch.cuda.is_available():
        try:
            torch.cuda.init()  # type: ignore[no-untyped-call]
        except (AssertionError, RuntimeError) as error:  # it names a driver that is too old
            return [], str(error).partition(" Please")[0]
        return [], "torch finds none."
    built = [
        int(name[3:])
        for name in torch.cuda.get_arch_list()
        if name[:3] == "sm_" and name[3:].isdigit()
    ]
    usable, refusals = [], []
    for gpu in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(gpu)
        if built and 10 * major + minor < min(built):
            refusals.append(
                f"It has compute capability {major}.{minor}, and this PyTorch needs "
                f"{min(built) / 10}."
            )
        else:
            usable.append(gpu)
    return usable, " ".join(dict.fromkeys(refusals))


def failure_kind(error: Exception, device: DeviceConfig) -> FailureKind | None:
    """Returns the kind of a failure of a load or a step; None if the device is broken and the
    process must be restarted."""
    name, text = type(error).__name__, str(error)
    memory = isinstance(error, MemoryError) or name == "OutOfMemoryError" or "out of memory" in text
    if device.cuda:
        import torch

        from model.backends.cuda.device import check_device

        try:
            check_device(device.device)
        except Exception:  # noqa: BLE001  torch has several kinds of errors for it
            return None
        if memory or "ALLOC_FAILED" in text:  # the jobs that failed run again one by one
            torch.cuda.empty_cache()
            return "out_of_memory"
    return "out_of_memory" if memory else "internal"


def _cpu_dtype(isa: Isa) -> str:
    """int8 where the processor has fast instructions for it; elsewhere float32 is faster and
    exact."""
    try:
        available(isa)
    except CpuBackendUnavailable:
        return "float32"
    return "int8"

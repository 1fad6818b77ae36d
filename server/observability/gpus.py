"""Memory and utilization of the machine's NVIDIA GPUs, read from the driver by NVML."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU by its number in the driver: bytes of memory used by all processes and in all, and the part of the last
    moments in which it computed."""

    gpu: str
    memory_used: int
    memory_total: int
    utilization: float


def read_gpus() -> list[GpuUse]:
    """Returns the GPUs that NVML can read; none without the package nvidia-ml-py or a driver."""
    nvml = _library()
    if nvml is None:
        return []
    found: list[GpuUse] = []
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError:  # the driver is gone
        return found
    for number in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            busy = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        except nvml.NVMLError:  # lost, or a part of a GPU, which has no utilization
            continue
        found.append(GpuUse(str(number), memory.used, memory.total, busy))
    return found


@cache
def _library() -> Any:
    """Returns the initialized library, None where there is none."""
    try:
        nvml = import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:  # no driver
        return None
    return nvml

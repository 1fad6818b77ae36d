"""The memory that a model takes on a CPU, and the free memory: a model that is too large is refused
before it is read."""

from __future__ import annotations

from pathlib import Path

from model.model_folder import FolderError, ModelFolder
from model.weight_files import SafetensorFiles, weight_files

_WIDTHS = {"int8": 1, "float16": 2, "bfloat16": 2}
_FLOAT32 = 4


def check_memory(folder: ModelFolder, dtype: str) -> None:
    """Raises FolderError for a model whose weights are larger than the free memory."""
    needed, free = memory_needed(folder, dtype), free_memory()
    if free is not None and needed > free:
        raise FolderError(too_large(needed, free))


def memory_needed(folder: ModelFolder, dtype: str) -> int:
    """Returns the bytes of the weights in a number format, and of the largest tensor in float32,
    from which it is converted. Raises FolderError for a damaged file."""
    sizes = SafetensorFiles(weight_files(folder.path)).sizes()
    return sum(sizes) * _WIDTHS.get(dtype, _FLOAT32) + max(sizes, default=0) * _FLOAT32


def too_large(needed: int, free: int | None) -> str:
    """Returns the sentence for a model that does not fit."""
    there = "the memory is used up" if free is None else f"{free / 1e6:,.0f} MB are free"
    return f"It needs about {needed / 1e6:,.0f} MB of memory, and {there}."


def free_memory(
    system: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Returns the bytes that this process may still use, of the machine or its container; None if
    neither states it."""
    bounds = []
    try:
        lines = system.read_text(encoding="ascii").splitlines()
        bounds += [
            int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")
        ]
    except (OSError, ValueError):  # another system
        pass
    for limit, used, statistics, cached in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "memory/memory.stat",
            "total_inactive_file",
        ),
    ):
        try:
            most, taken = (
                int((cgroup / name).read_text(encoding="ascii")) for name in (limit, used)
            )
            fields = dict(
                line.split()
                for line in (cgroup / statistics).read_text(encoding="ascii").splitlines()
            )
            bounds.append(most - taken + int(fields.get(cached, 0)))
        except (OSError, ValueError):  # no container of this version, or "max"
            continue
    return max(0, min(bounds)) if bounds else None

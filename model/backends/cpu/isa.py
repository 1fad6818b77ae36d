"""Instruction sets of the CPU backend. By default a trial of some tenths of a second chooses the
fastest one of this processor."""

from __future__ import annotations

import ctypes
import platform
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Isa = Literal["auto", "amx", "avx512", "avxvnni", "avx2", "neon-i8mm", "neon-dotprod"]

_CPU_INFO = Path("/proc/cpuinfo")
_MACHINES = {"x86_64": "x86-64", "aarch64": "ARM64"}
# AT_HWCAP and AT_HWCAP2 of getauxval, and their bits
_HARDWARE_BITS = {"asimddp": (16, 20), "i8mm": (26, 13)}
_AVX2 = ("avx2", "fma")
_AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni")
_AVX512_OPTIONS = (
    "-mavx512f",
    "-mavx512bw",
    "-mavx512dq",
    "-mavx512vl",
    "-mavx512vnni",
    "-mavx2",
    "-mfma",
)
TRIAL_SECONDS = 20


class CpuBackendUnavailable(RuntimeError):
    """The CPU backend cannot run here. The message is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """An instruction set: the processor's required flags, as in /proc/cpuinfo, and the compiler
    flags. `machine` is that of `platform.machine`. `tiles`: it uses the tile registers of AMX, for
    which a process needs the kernel's permission; "auto" uses it only after a trial."""

    name: Isa
    cpu_flags: tuple[str, ...]
    compiler_flags: tuple[str, ...]
    machine: str = "x86_64"
    tiles: bool = False


INSTRUCTION_SETS = (
    InstructionSet(
        "amx", (*_AVX2, *_AVX512, "amx_tile", "amx_int8"), (*_AVX512_OPTIONS, "-mamx-tile", "-mamx-int8"), tiles=True,
    ),
    InstructionSet("avx512", (*_AVX2, *_AVX512), _AVX512_OPTIONS),
    InstructionSet("avxvnni", (*_AVX2, "avx_vnni"), ("-mavx2", "-mfma", "-mavxvnni")),
    InstructionSet("avx2", _AVX2, ("-mavx2", "-mfma")),
    InstructionSet("neon-i8mm", ("asimddp", "i8mm"), ("-march=armv8.2-a+dotprod+i8mm",), machine="aarch64"),
    InstructionSet("neon-dotprod", ("asimddp",), ("-march=armv8.2-a+dotprod",), machine="aarch64"),
)  # fmt: skip
"""Newest of each machine first. Results do not depend on the choice (`test_isa.py`)."""


def check_platform() -> None:
    """Raises CpuBackendUnavailable unless this is Linux on x86-64 or ARM64."""
    system, machine = platform.system(), platform.machine()
    if system != "Linux" or machine not in _MACHINES:
        raise CpuBackendUnavailable(
            f"The CPU backend needs Linux on x86-64 or ARM64; on {system} {machine} PyTorch "
            "decodes, slower."
        )


def of_machine(isa: Isa = "auto", machine: str = "") -> list[InstructionSet]:
    """Returns the instruction sets for this machine or another `machine`, newest first, whether or
    not its processor has them, or only `isa`. Raises CpuBackendUnavailable if `isa` is for other
    machines."""
    check_platform()
    machine = machine or platform.machine()
    sets = [
        candidate
        for candidate in INSTRUCTION_SETS
        if candidate.machine == machine and isa in ("auto", candidate.name)
    ]
    if not sets:
        other = next(
            _MACHINES[candidate.machine] for candidate in INSTRUCTION_SETS if candidate.name == isa
        )
        raise CpuBackendUnavailable(
            f"The instruction set {isa} needs a processor with {other} and this one has "
            f"{_MACHINES[machine]}; here "
            "PyTorch decodes."
        )
    return sets


def available(isa: Isa = "auto") -> list[InstructionSet]:
    """Returns the instruction sets of this processor, newest first, or only `isa`. Asks the kernel
    for permission to use AMX. Raises CpuBackendUnavailable if there is none."""
    wanted = of_machine(isa)
    flags = _hardware_flags() if platform.machine() == "aarch64" else _cpu_info_flags()
    possible = [candidate for candidate in wanted if flags.issuperset(candidate.cpu_flags)]
    permitted = [candidate for candidate in possible if not candidate.tiles or _tiles_permitted()]
    if possible and not permitted:
        raise CpuBackendUnavailable(
            "The kernel does not permit AMX in this process; here PyTorch decodes."
        )
    if not permitted:
        missing = [flag for flag in wanted[-1].cpu_flags if flag not in flags]
        raise CpuBackendUnavailable(
            f"The CPU backend needs a processor with {', '.join(missing)}; here PyTorch decodes."
        )
    return permitted


def _cpu_info_flags() -> set[str]:
    lines = _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    return set(
        next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), [])
    )


def _hardware_flags() -> set[str]:
    """Returns the features of an ARM processor from the kernel, which also an emulator states."""
    getauxval = ctypes.CDLL(None).getauxval
    getauxval.restype, getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return {name for name, (kind, bit) in _HARDWARE_BITS.items() if getauxval(kind) >> bit & 1}


def _tiles_permitted() -> bool:
    """Asks the kernel to let all threads of this process use the tile registers (arch_prctl,
    ARCH_REQ_XCOMP_PERM). A kernel before 5.16, a filter of system calls, or a thread with a too
    small signal stack refuses."""
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    arguments = map(ctypes.c_long, (arch_prctl, request_permission, tile_data))
    return bool(ctypes.CDLL(None).syscall(*arguments) == 0)


def fastest_first(
    candidates: Sequence[InstructionSet], program: Callable[[InstructionSet], Path]
) -> list[InstructionSet]:
    """Returns the candidates whose products are right, fastest first, as their trial programs say.
    A single one is not tried. Without a result returns those without tiles, in their order."""
    if len(candidates) == 1:
        return list(candidates)
    times = {
        candidate.name: time
        for candidate in candidates
        if (time := _nanoseconds(program(candidate))) is not None
    }
    tried = [candidate for candidate in candidates if candidate.name in times]
    tried.sort(key=lambda candidate: times[candidate.name])
    return tried or [candidate for candidate in candidates if not candidate.tiles]


@cache
def _nanoseconds(program: Path) -> float | None:
    """Returns what a trial program measured, or None if it is missing, fails, or a bit differs."""
    try:
        done = subprocess.run(
            [program], capture_output=True, text=True, timeout=TRIAL_SECONDS, check=False
        )
        return float(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None

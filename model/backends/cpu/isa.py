"""Instruction sets of the CPU backend. By default the best one of this processor is used."""

from __future__ import annotations

import ctypes
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Isa = Literal["auto", "amx", "avx512", "avxvnni", "avx2"]

_CPU_INFO = Path("/proc/cpuinfo")


class CpuBackendUnavailable(RuntimeError):
    """The CPU backend cannot run here. The message is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """An instruction set: the required flags of /proc/cpuinfo and the compiler flags. `tiles`: it uses the tile
    registers of AMX, for which a process needs the kernel's permission. `automatic`: "auto" may select it."""

    name: Isa
    cpu_flags: tuple[str, ...]
    compiler_flags: tuple[str, ...]
    tiles: bool = False
    automatic: bool = True


_AVX2 = ("avx2", "fma")
_AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni")
_AVX512_OPTIONS = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mavx2", "-mfma")
INSTRUCTION_SETS = (
    InstructionSet(
        "amx", (*_AVX2, *_AVX512, "amx_tile", "amx_int8"), (*_AVX512_OPTIONS, "-mamx-tile", "-mamx-int8"), tiles=True,
        automatic=False,  # until the tests of its bits have passed on a processor, not only in an emulation
    ),
    InstructionSet("avx512", (*_AVX2, *_AVX512), _AVX512_OPTIONS),
    InstructionSet("avxvnni", (*_AVX2, "avx_vnni"), ("-mavx2", "-mfma", "-mavxvnni")),
    InstructionSet("avx2", _AVX2, ("-mavx2", "-mfma")),
)  # fmt: skip
"""The fastest first. Results do not depend on the choice (tests/unit/model/backends/cpu/test_isa.py)."""


def check_platform() -> None:
    """Raises CpuBackendUnavailable unless this is Linux on x86-64."""
    system, machine = platform.system(), platform.machine()
    if system != "Linux" or machine != "x86_64":
        raise CpuBackendUnavailable(
            f"The CPU backend needs Linux on x86-64; on {system} {machine} PyTorch decodes, slower."
        )


def available(isa: Isa = "auto") -> list[InstructionSet]:
    """Returns the instruction sets of this processor, fastest first, or only `isa`. Raises CpuBackendUnavailable if
    none. Asks the kernel for permission to use AMX if the processor has it."""
    check_platform()
    lines = _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    flags = set(next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), []))
    wanted = [each for each in INSTRUCTION_SETS if isa == each.name or (isa == "auto" and each.automatic)]
    possible = [each for each in wanted if flags.issuperset(each.cpu_flags)]
    found = [each for each in possible if not each.tiles or _tiles_permitted()]
    if possible and not found:
        raise CpuBackendUnavailable("The kernel does not permit AMX in this process; here PyTorch decodes.")
    if not found:
        missing = [flag for flag in wanted[-1].cpu_flags if flag not in flags]
        raise CpuBackendUnavailable(
            f"The CPU backend needs a processor with {', '.join(missing)}; here PyTorch decodes."
        )
    return found


def _tiles_permitted() -> bool:
    """Asks the kernel to let all threads of this process use the tile registers (arch_prctl, ARCH_REQ_XCOMP_PERM).

    A kernel before 5.16 or a filter of system calls refuses. So does a thread whose signal stack is too small for them.
    """
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    arguments = map(ctypes.c_long, (arch_prctl, request_permission, tile_data))
    return bool(ctypes.CDLL(None).syscall(*arguments) == 0)


def check_cpu(isa: Isa = "auto") -> None:
    """Raises CpuBackendUnavailable unless this processor has the instruction set `isa` ("auto": any)."""
    available(isa)

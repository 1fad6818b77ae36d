"""The CPU backend with the tile instructions of AMX emulated in plain C++ (processors/amx), for
processors without AMX."""

from __future__ import annotations

import hashlib
from pathlib import Path

from model.backends.cpu import build
from model.backends.cpu.isa import InstructionSet, available

EMULATED = "emulated amx"
FOLDER = Path(__file__).parent / "amx"
CACHE = Path.home() / ".cache" / "attentive-tests"
"""The folder of what tests compile for other processors."""


def emulated_library() -> Path:
    """Returns the library, compiled if necessary. Raises CpuBackendUnavailable without AVX2 or a
    compiler."""
    least = available("avx2")[0]
    digest = hashlib.sha256(
        b"".join(path.read_bytes() for path in sorted(FOLDER.iterdir()))
    ).hexdigest()
    flags = (
        *least.compiler_flags, "-O1", "-DATTENTIVE_EMULATED_TILES", f"-DATTENTIVE_EMULATION=0x{digest[:8]}",
        f"-I{FOLDER}", f"-I{build.SOURCES}",
    )  # fmt: skip
    name = build.library_name(InstructionSet("amx", least.cpu_flags, flags))
    units = [
        *(path for path in build.source_files() if path.suffix == ".cpp"),
        FOLDER / "emulated_gemm.cpp",
    ]
    with build.locked(CACHE):
        return build.compiled(CACHE / name, [*build.FLAGS, *flags], units)

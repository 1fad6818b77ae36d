"""Compilation of the C++ sources into a shared library, once per version of the sources."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from model.backends.cpu.isa import CpuBackendUnavailable, InstructionSet, Isa, available, of_this_machine

SOURCES = Path(__file__).parent / "csrc"
COMPILERS = ("g++", "c++", "clang++")
FLAGS = (
    "-std=c++20",
    "-O3",
    "-ffp-contract=off",
    "-fPIC",
    "-shared",
    "-pthread",
    "-static-libstdc++",
    "-static-libgcc",
)
TIMEOUT_SECONDS = 300
"""Time for one library while a server waits for it with torch. Compiling ahead of time has no limit."""


def default_folder() -> Path:
    """Returns the folder in which compiled libraries are cached."""
    return Path.home() / ".cache" / "attentive"


def library_name(instructions: InstructionSet) -> str:
    """Returns the file name of the library, which contains a hash of the sources, the flags and the C library's
    version."""
    words = (*FLAGS, *instructions.compiler_flags, *platform.libc_ver(), platform.machine())
    digest = hashlib.sha256("\0".join(words).encode())
    for source in source_files():
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return f"attentive-{instructions.name}-{digest.hexdigest()[:20]}.so"


def source_files() -> list[Path]:
    """Returns the C++ sources and headers, sorted."""
    return sorted([*SOURCES.glob("*.cpp"), *SOURCES.glob("*.h")])


def find(folder: Path | None = None, isa: Isa = "auto") -> Path | None:
    """Returns a compiled library for the best instruction set of this processor, or for `isa`.

    Looks beside the sources and in `folder` (by default the cache). Returns None if there is none.
    """
    try:
        return _find(folder, available(isa)[0])
    except CpuBackendUnavailable:
        return None


def build(folder: Path | None = None, isa: Isa = "auto") -> Path:
    """Returns a library, compiled into `folder` if necessary, which takes some seconds of one core.

    Uses the next instruction set if the best one cannot be compiled. Raises CpuBackendUnavailable if none can.
    """
    refusal: CpuBackendUnavailable | None = None
    for instructions in available(isa):
        try:
            return build_one(instructions, folder)
        except CpuBackendUnavailable as unavailable:
            refusal = refusal or unavailable
    raise refusal or CpuBackendUnavailable("The CPU backend has no instruction set for this processor.")


def build_one(
    instructions: InstructionSet, folder: Path | None = None, seconds: float | None = TIMEOUT_SECONDS
) -> Path:
    """Returns the library for `instructions`, compiled into `folder` if necessary, within `seconds` (None: no limit).
    Raises CpuBackendUnavailable."""
    return _find(folder, instructions) or _compile(folder or default_folder(), instructions, seconds)


def build_ahead(folder: Path, isa: Isa = "auto", report: Callable[[str], object] = lambda text: None) -> list[Path]:
    """Compiles one instruction set, or all of this machine ("auto") at the same time, also those its processor lacks, for
    use elsewhere.

    `report` receives a line for each that the compiler cannot compile. Raises CpuBackendUnavailable if it can compile none.
    """
    built, refusal = [], CpuBackendUnavailable("There is nothing to compile.")
    wanted = of_this_machine(isa)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        building = {each.name: pool.submit(build_one, each, folder, None) for each in wanted}
        for name, library in building.items():
            try:
                built.append(library.result())
            except CpuBackendUnavailable as unavailable:
                refusal = unavailable
                report(f"{name}: {unavailable}\n")
    if not built:
        raise refusal
    return built


def _find(folder: Path | None, instructions: InstructionSet) -> Path | None:
    name = library_name(instructions)
    for place in (SOURCES, folder or default_folder()):
        path = place / name
        if path.is_file() and path.stat().st_uid in (0, os.getuid()):
            return path
    return None


def _compile(target: Path, instructions: InstructionSet, seconds: float | None) -> Path:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise CpuBackendUnavailable(
            "The CPU backend needs a C++ compiler (g++) or a library that was built ahead of time."
        )
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target) as scratch:
            library = Path(scratch) / "library.so"
            _run(compiler, instructions, library, seconds)
            path = target / library_name(instructions)
            library.replace(path)  # atomic: another process sees the whole library or none
    except OSError as error:
        raise CpuBackendUnavailable(f"The CPU backend could not be written to {target}: {error.strerror}.") from None
    return path


def _run(compiler: str, instructions: InstructionSet, library: Path, seconds: float | None) -> None:
    sources = [str(source) for source in source_files() if source.suffix == ".cpp"]
    command = [compiler, *FLAGS, *instructions.compiler_flags, *sources, "-o", str(library)]
    if seconds is not None and (nice := shutil.which("nice")):  # the server translates meanwhile
        command = [nice, "-n", "10", *command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise CpuBackendUnavailable(f"Compiling the CPU backend took longer than {seconds:.0f} seconds.") from None
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
        raise CpuBackendUnavailable(f"The CPU backend did not compile: {first.strip()[:200]}")

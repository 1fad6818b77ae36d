"""Compilation of the C++ sources into a shared library, once per version of the sources and instruction set."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from model.backends.cpu.isa import CpuBackendUnavailable, InstructionSet, Isa, available, of_this_machine
from model.backends.cpu.isa_trial import fastest_first

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
TRIAL_FLAGS = tuple(flag for flag in FLAGS if flag not in ("-fPIC", "-shared"))
TRIAL_SOURCES = ("trial/", "kernels/", "layers/linear.")
"""The sources of the trial program begin so; the library has all others than `trial/`."""


def default_folder() -> Path:
    """Returns the folder in which compiled libraries are cached."""
    return Path.home() / ".cache" / "attentive"


def library_name(instructions: InstructionSet) -> str:
    """Returns the file name of the library, which contains a hash of the sources, the flags and the C library's
    version."""
    return _file_name("attentive", instructions, source_files(), FLAGS) + ".so"


def source_files(trial: bool = False) -> list[Path]:
    """Returns the C++ sources and headers of the library, or of the trial program, sorted."""
    files = sorted([*SOURCES.rglob("*.cpp"), *SOURCES.rglob("*.h")])
    if trial:
        return [path for path in files if path.relative_to(SOURCES).as_posix().startswith(TRIAL_SOURCES)]
    return [path for path in files if path.parent.name != "trial"]


def build(folder: Path | None = None, isa: Isa = "auto") -> Path:
    """Returns a library, compiled into `folder` if necessary, which takes some seconds of one core.

    Uses the next instruction set if the fastest one cannot be compiled. Raises CpuBackendUnavailable if none can.
    """
    refusal: CpuBackendUnavailable | None = None
    for instructions in _ranked(folder, isa):
        try:
            return build_one(instructions, folder)
        except CpuBackendUnavailable as unavailable:
            refusal = refusal or unavailable
    raise refusal or CpuBackendUnavailable("The CPU backend has no instruction set for this processor.")


def build_one(instructions: InstructionSet, folder: Path | None = None) -> Path:
    """Returns the library for `instructions`, compiled into `folder` if necessary. Raises CpuBackendUnavailable."""
    name = library_name(instructions)
    return _find(folder, name) or _compile(folder, name, (*FLAGS, *instructions.compiler_flags), source_files())


def build_trial(instructions: InstructionSet, folder: Path | None = None) -> Path:
    """Returns the trial program of `instructions`, compiled into `folder` if necessary. Raises CpuBackendUnavailable."""
    sources = source_files(trial=True)
    name = _file_name("trial", instructions, sources, TRIAL_FLAGS)
    return _find(folder, name) or _compile(folder, name, (*TRIAL_FLAGS, *instructions.compiler_flags), sources)


def _ranked(folder: Path | None, isa: Isa) -> list[InstructionSet]:
    """Returns the instruction sets to use, fastest first. Raises CpuBackendUnavailable if there is none."""
    sources = hashlib.sha256(b"".join(path.read_bytes() for path in source_files(trial=True))).hexdigest()
    return fastest_first(available(isa), lambda each: build_trial(each, folder), folder or default_folder(), sources)


def build_ahead(folder: Path, isa: Isa = "auto", report: Callable[[str], object] = lambda text: None) -> list[Path]:
    """Compiles one instruction set, or all of this machine ("auto") with their trials at the same time, also those its
    processor lacks, for use elsewhere.

    `report` receives a line for each that the compiler cannot compile. Raises CpuBackendUnavailable if it can compile none.
    """
    built, refusal = [], CpuBackendUnavailable("There is nothing to compile.")
    wanted = of_this_machine(isa)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        trials = [pool.submit(build_trial, each, folder) for each in wanted if len(wanted) > 1]
        building = {each.name: pool.submit(build_one, each, folder) for each in wanted}
        for name, library in building.items():
            try:
                built.append(library.result())
            except CpuBackendUnavailable as unavailable:
                refusal = unavailable
                report(f"{name}: {unavailable}\n")
        for trial in trials:
            trial.exception()  # an instruction set that does not compile was reported
    if not built:
        raise refusal
    return built


def _file_name(kind: str, instructions: InstructionSet, sources: Sequence[Path], flags: Sequence[str]) -> str:
    words = (*flags, *instructions.compiler_flags, *platform.libc_ver(), platform.machine())
    digest = hashlib.sha256("\0".join(words).encode())
    for source in sources:
        digest.update(source.relative_to(SOURCES).as_posix().encode() + b"\0" + source.read_bytes())
    return f"{kind}-{instructions.name}-{digest.hexdigest()[:20]}"


def _find(folder: Path | None, name: str) -> Path | None:
    for place in (SOURCES, folder or default_folder()):
        path = place / name
        if path.is_file() and path.stat().st_uid in (0, os.getuid()):
            return path
    return None


def _compile(folder: Path | None, name: str, flags: Sequence[str], sources: Sequence[Path]) -> Path:
    target = folder or default_folder()
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise CpuBackendUnavailable(
            "The CPU backend needs a C++ compiler (g++) or a library that was built ahead of time."
        )
    units = [str(source) for source in sources if source.suffix == ".cpp"]
    sys.stderr.write(
        f"Compiling {name} of the CPU backend, once for this version; this takes some seconds to a minute.\n"
    )
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target) as scratch:
            output = Path(scratch) / "output"
            _run([compiler, *flags, f"-I{SOURCES}", *units, "-o", str(output)])
            path = target / name
            output.replace(path)  # atomic: another process sees the whole file or none
    except OSError as error:
        raise CpuBackendUnavailable(f"The CPU backend could not be written to {target}: {error.strerror}.") from None
    return path


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
        raise CpuBackendUnavailable(f"The CPU backend did not compile: {first.strip()[:200]}")

"""The compiled library of an instruction set, and its compilation."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from model.atomic_write import atomic_write
from model.backends.cpu.isa import (
    CpuBackendUnavailable,
    InstructionSet,
    Isa,
    available,
    fastest_first,
    of_machine,
)

COMMAND = "python -P -m model.backends.cpu build --isa auto"
"""Compiles for the installed package: without -P, Python would take that of a checkout."""
SOURCES = Path(__file__).parent / "csrc"
"""The folder of the sources and of the compiled libraries."""
COMPILERS = ("g++", "c++", "clang++")
FLAGS = (
    "-std=c++20",
    "-O3",
    "-ffp-contract=off",
    "-fPIC",
    "-shared",
    "-pthread",
    "-static-libstdc++",
    "-Wl,--exclude-libs,ALL,--gc-sections",
)
TRIAL_FLAGS = tuple(flag for flag in FLAGS if flag not in ("-fPIC", "-shared"))
TRIAL_SOURCES = ("trial/", "kernels/", "layers/linear.")
"""The sources of the trial program begin so; the library has all but `trial/`."""


def library(isa: Isa = "auto") -> Path:
    """Returns the library of the fastest instruction set that is compiled and that this processor
    has, or of `isa`. Raises CpuBackendUnavailable if there is none."""
    paths = {candidate: SOURCES / library_name(candidate) for candidate in available(isa)}
    compiled = [candidate for candidate, path in paths.items() if path.is_file()]
    if not compiled:
        raise CpuBackendUnavailable(f"The CPU backend is not compiled; `{COMMAND}` compiles it.")
    return paths[fastest_first(compiled, lambda candidate: SOURCES / trial_name(candidate))[0]]


def library_name(instructions: InstructionSet) -> str:
    """Returns the library's file name, which contains a hash of sources and flags."""
    return _file_name("attentive", instructions, source_files(), FLAGS) + ".so"


def trial_name(instructions: InstructionSet) -> str:
    return _file_name("trial", instructions, source_files(trial=True), TRIAL_FLAGS)


def source_files(trial: bool = False) -> list[Path]:
    """Returns the sorted C++ sources and headers of the library, or of the trial program."""
    files = sorted([*SOURCES.rglob("*.cpp"), *SOURCES.rglob("*.h")])
    if trial:
        return [
            path for path in files if path.relative_to(SOURCES).as_posix().startswith(TRIAL_SOURCES)
        ]
    return [path for path in files if path.parent.name != "trial"]


def build(isa: Isa = "auto", folder: Path | None = None) -> Path:
    """Returns the library of the fastest instruction set of this processor, or of `isa`, compiled
    into `folder` (SOURCES) if it is missing. Skips sets that the compiler cannot compile. Raises
    CpuBackendUnavailable if it can compile none."""
    candidates, folder, refusal = available(isa), folder or SOURCES, None
    with locked(folder):
        for instructions in candidates if len(candidates) > 1 else []:
            with suppress(CpuBackendUnavailable):
                build_trial(instructions, folder)
        for instructions in fastest_first(
            candidates, lambda candidate: folder / trial_name(candidate)
        ):
            try:
                return build_one(instructions, folder)
            except CpuBackendUnavailable as unavailable:
                refusal = refusal or unavailable
    raise refusal or CpuBackendUnavailable(
        "The CPU backend has no instruction set for this processor."
    )


def build_all(
    folder: Path,
    isa: Isa = "auto",
    report: Callable[[str], object] = lambda text: None,
    machine: str = "",
) -> list[Path]:
    """Compiles all instruction sets of this machine or of another `machine` with their trials, or
    only `isa`, for use elsewhere. `report` receives a line for each that the compiler cannot
    compile. Raises CpuBackendUnavailable if it can compile none."""
    built, refusal = [], CpuBackendUnavailable("There is nothing to compile.")
    wanted = of_machine(isa, machine)
    with locked(folder):
        for instructions in wanted:
            try:
                built.append(build_one(instructions, folder))
                if len(wanted) > 1:
                    build_trial(instructions, folder)
            except CpuBackendUnavailable as unavailable:
                refusal = unavailable
                report(f"{instructions.name}: {unavailable}\n")
    if not built:
        raise refusal
    return built


def build_one(instructions: InstructionSet, folder: Path) -> Path:
    """Returns the library for `instructions`, compiled if necessary. Raises
    CpuBackendUnavailable."""
    flags = (*FLAGS, *instructions.compiler_flags, f"-I{SOURCES}")
    return compiled(folder / library_name(instructions), flags, source_files())


def build_trial(instructions: InstructionSet, folder: Path) -> Path:
    """Returns the trial program of `instructions`, compiled if necessary. Raises
    CpuBackendUnavailable."""
    flags = (*TRIAL_FLAGS, *instructions.compiler_flags, f"-I{SOURCES}")
    return compiled(folder / trial_name(instructions), flags, source_files(trial=True))


def compiled(path: Path, flags: Sequence[str], sources: Sequence[Path]) -> Path:
    """Returns `path`, compiled from the sources on up to four cores if it is missing. Raises
    CpuBackendUnavailable."""
    if path.is_file():
        return path
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))), None)
    if compiler is None:
        raise CpuBackendUnavailable(
            "The CPU backend needs a C++ compiler (g++), or a wheel with its libraries."
        )
    sys.stderr.write(
        f"Compiling {path.name} of the CPU backend, once for this version, for up to a minute.\n"
    )
    units = [source for source in sources if source.suffix == ".cpp"]
    with tempfile.TemporaryDirectory() as scratch, atomic_write(path) as output:
        listed = Path(scratch) / "listed"
        jobs = min(4, len(units), len(os.sched_getaffinity(0)))  # each takes up to 400 MB
        parts = [f"{scratch}/{number}" for number in range(jobs)]
        for number, part in enumerate(parts):  # a unit's headers take longer than its own code
            included = "".join([f'#include "{unit}"\n' for unit in units[number::jobs]])
            Path(f"{part}.cpp").write_text(included, encoding="utf-8")
        listed.write_text("\0".join(parts), encoding="utf-8")
        compile_part = ["xargs", "-0", f"-a{listed}", f"-P{jobs}", "-I{}", compiler, "-c", *flags]
        _run([*compile_part, "{}.cpp", "-o", "{}.o"], scratch)
        _run([compiler, *flags, *[f"{part}.o" for part in parts], "-o", str(output)], scratch)
    return path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Creates and locks a folder, if its file system has locks. Raises CpuBackendUnavailable if the
    block cannot write to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        reason = f"The CPU backend could not be written to {folder}: {error.strerror}."
        raise CpuBackendUnavailable(reason) from None


def _run(command: list[str], scratch: str) -> None:
    variables = os.environ | {"TMPDIR": scratch}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    if done.returncode:
        first = next(
            (line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200]
        )
        raise CpuBackendUnavailable(f"The CPU backend did not compile: {first.strip()[:200]}")


def _file_name(
    kind: str, instructions: InstructionSet, sources: Sequence[Path], flags: Sequence[str]
) -> str:
    words = (*flags, *instructions.compiler_flags)
    digest = hashlib.sha256("\0".join(words).encode())
    for source in sources:
        digest.update(source.relative_to(SOURCES).as_posix().encode() + b"\0" + source.read_bytes())
    return f"{kind}-{instructions.name}-{digest.hexdigest()[:20]}"

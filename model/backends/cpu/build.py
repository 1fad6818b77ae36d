"""Compilation of the C++ sources into a shared library, once per version of the sources and instruction set."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

from model.backends.cpu.compiler import Compiler
from model.backends.cpu.isa import CpuBackendUnavailable, InstructionSet, Isa, available, fastest_first, of_machine

SOURCES = Path(__file__).parent / "csrc"
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
"""The sources of the trial program begin so; the library has all others than `trial/`."""


def default_folder() -> Path:
    """Returns the folder in which compiled libraries are cached, for this C library: machines may share a home."""
    return Path.home() / ".cache" / "attentive" / "-".join(platform.libc_ver())


def library_name(instructions: InstructionSet) -> str:
    """Returns the file name of the library, which contains a hash of the sources and the flags."""
    return _file_name("attentive", instructions, source_files(), FLAGS) + ".so"


def source_files(trial: bool = False) -> list[Path]:
    """Returns the C++ sources and headers of the library, or of the trial program, sorted."""
    files = sorted([*SOURCES.rglob("*.cpp"), *SOURCES.rglob("*.h")])
    if trial:
        return [path for path in files if path.relative_to(SOURCES).as_posix().startswith(TRIAL_SOURCES)]
    return [path for path in files if path.parent.name != "trial"]


def build(folder: Path | None = None, isa: Isa = "auto") -> Path:
    """Returns a library, compiled into `folder` if necessary, which takes some seconds of one core. Another process that
    compiles is waited for, and its result is used.

    Uses the next instruction set if the fastest one cannot be compiled. Raises CpuBackendUnavailable if none can.
    """
    refusal: CpuBackendUnavailable | None = None
    with Compiler(folder or default_folder()) as compiler:
        for instructions in fastest_first(available(isa), lambda each: build_trial(each, compiler)):
            try:
                return build_one(instructions, compiler)
            except CpuBackendUnavailable as unavailable:
                refusal = refusal or unavailable
    raise refusal or CpuBackendUnavailable("The CPU backend has no instruction set for this processor.")


def build_one(instructions: InstructionSet, compiler: Compiler) -> Path:
    """Returns the library for `instructions`, compiled if necessary. Raises CpuBackendUnavailable."""
    return _built(compiler, library_name(instructions), (*FLAGS, *instructions.compiler_flags), source_files())


def build_trial(instructions: InstructionSet, compiler: Compiler) -> Path:
    """Returns the trial program of `instructions`, compiled if necessary. Raises CpuBackendUnavailable."""
    sources = source_files(trial=True)
    name = _file_name("trial", instructions, sources, TRIAL_FLAGS)
    return _built(compiler, name, (*TRIAL_FLAGS, *instructions.compiler_flags), sources)


def build_ahead(
    folder: Path, isa: Isa = "auto", report: Callable[[str], object] = lambda text: None, machine: str = ""
) -> list[Path]:
    """Compiles one instruction set, or all of this machine or another `machine` ("auto") with their trials,
    also those its processor lacks, for use elsewhere.

    `report` receives a line for each that the compiler cannot compile. Raises CpuBackendUnavailable if it can compile none.
    """
    built, refusal = [], CpuBackendUnavailable("There is nothing to compile.")
    wanted = of_machine(isa, machine)
    with Compiler(folder) as compiler:
        for each in wanted:
            try:
                built.append(build_one(each, compiler))
                if len(wanted) > 1:
                    build_trial(each, compiler)
            except CpuBackendUnavailable as unavailable:
                refusal = unavailable
                report(f"{each.name}: {unavailable}\n")
    if not built:
        raise refusal
    return built


def _file_name(kind: str, instructions: InstructionSet, sources: Sequence[Path], flags: Sequence[str]) -> str:
    words = (*flags, *instructions.compiler_flags)
    digest = hashlib.sha256("\0".join(words).encode())
    for source in sources:
        digest.update(source.relative_to(SOURCES).as_posix().encode() + b"\0" + source.read_bytes())
    return f"{kind}-{instructions.name}-{digest.hexdigest()[:20]}"


def _built(compiler: Compiler, name: str, flags: Sequence[str], sources: Sequence[Path]) -> Path:
    if (path := SOURCES / name).is_file():  # built ahead
        return path
    units = [source for source in sources if source.suffix == ".cpp"]
    return compiler.compiled(name, [*flags, f"-I{SOURCES}"], units)

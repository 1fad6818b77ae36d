"""Runs the C++ compiler, in one process at a time, and ends it with the process that waits for it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from model.backends.cpu.isa import CpuBackendUnavailable

COMPILERS = ("g++", "c++", "clang++")
SCRATCH = "compiling-"
"""The names of folders of compilations in progress begin so."""
ENDS_WITH_INPUT = 'exec 3<&0; { read end <&3; kill -KILL 0; } >/dev/null 2>&1 & "$@" </dev/null'
"""A shell that runs a command, and at the end of its standard input ends its process group. g++ starts further processes, and
the caller may be killed: the end of a pipe reaches all of them."""


class Compiler:
    """Compiles into `folder`. Other processes wait from its first compilation to the end of its `with` block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = ExitStack()
        self._locked = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def compiled(self, name: str, flags: Sequence[str], units: Sequence[Path]) -> Path:
        """Returns a file of the folder, compiled if it is not there, on several cores. Raises CpuBackendUnavailable."""
        path = self.folder / name
        if is_own(path):
            return path
        compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))), None)
        if compiler is None:
            raise CpuBackendUnavailable(
                "The CPU backend needs a C++ compiler (g++) or a library that was built ahead of time."
            )
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._wait_for_others()
            if is_own(path):
                return path
            sys.stderr.write(f"Compiling {name} of the CPU backend, once for this version, for up to a minute.\n")
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=SCRATCH) as scratch:
                output, listed = Path(scratch) / "output", Path(scratch) / "listed"
                jobs = min(4, len(units), len(os.sched_getaffinity(0)))  # each takes up to 400 MB
                parts = [f"{scratch}/{number}" for number in range(jobs)]
                for number, part in enumerate(parts):  # a unit's headers take longer than its own code
                    included = "".join([f'#include "{unit}"\n' for unit in units[number::jobs]])
                    Path(f"{part}.cpp").write_text(included, encoding="utf-8")
                listed.write_text("\0".join(parts), encoding="utf-8")
                each = ["xargs", "-0", f"-a{listed}", f"-P{jobs}", "-I{}", compiler, "-c", *flags]
                _run([*each, "{}.cpp", "-o", "{}.o"], scratch)
                _run([compiler, *flags, *[f"{part}.o" for part in parts], "-o", str(output)], scratch)
                output.replace(path)  # atomic: another process sees the whole file or none
        except OSError as error:
            reason = f"The CPU backend could not be written to {self.folder}: {error.strerror}."
            raise CpuBackendUnavailable(reason) from None
        return path

    def _wait_for_others(self) -> None:
        """Locks the folder, where its file system can, and removes what killed processes have left."""
        if self._locked:
            return
        self._locked = True
        folder = os.open(self.folder, os.O_RDONLY)  # the system releases the lock, however this process ends
        self._lock.callback(os.close, folder)
        with suppress(OSError):
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                sys.stderr.write("Waiting for another process that compiles the CPU backend.\n")
                fcntl.flock(folder, fcntl.LOCK_EX)
            for left in self.folder.glob(f"{SCRATCH}*"):
                shutil.rmtree(left, ignore_errors=True)


def is_own(path: Path) -> bool:
    """Returns whether a path is a file of this user or of root."""
    return path.is_file() and path.stat().st_uid in (0, os.getuid())


def _run(command: list[str], scratch: str) -> None:
    """Runs a compiler, with `scratch` for its temporary files. It ends when this process does, also if that is killed."""
    command = ["/bin/sh", "-c", ENDS_WITH_INPUT, "sh", *command]
    variables = os.environ | {"TMPDIR": scratch}
    reader, writer = os.pipe()
    try:
        done = subprocess.run(
            command, stdin=reader, capture_output=True, text=True, check=False, env=variables, start_new_session=True
        )
    finally:
        os.close(writer)
        os.close(reader)
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
        raise CpuBackendUnavailable(f"The CPU backend did not compile: {first.strip()[:200]}")

"""Compiles the engine's C++ sources into a shared library, once per source text, and says why where that is impossible."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

SOURCES = Path(__file__).parent
CPU_FLAGS = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni")
COMPILERS = ("g++", "c++", "clang++")
FLAGS = (
    "-std=c++20", "-O3", "-ffp-contract=off", "-fPIC", "-shared", "-pthread", "-static-libstdc++", "-static-libgcc",
    "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mfma",
)  # fmt: skip
TIMEOUT_SECONDS = 300


class NativeUnavailable(RuntimeError):
    """The engine cannot run here; the message is one sentence that says why."""


def check_cpu() -> None:
    """Raises NativeUnavailable unless this is Linux on an x86-64 processor with AVX-512 VNNI."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise NativeUnavailable("The native engine needs Linux on x86-64.")
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    flags = next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), [])
    if missing := [flag for flag in CPU_FLAGS if flag not in flags]:
        raise NativeUnavailable(f"The native engine needs a processor with {', '.join(missing)}.")


def default_folder() -> Path:
    """Where libraries are kept between runs."""
    return Path.home() / ".cache" / "attentive"


def library_name() -> str:
    """File name of the library: it changes with the sources, the flags and the C library."""
    digest = hashlib.sha256("\0".join((*FLAGS, *platform.libc_ver(), platform.machine())).encode())
    for source in source_files():
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return f"attentive-{digest.hexdigest()[:20]}.so"


def source_files() -> list[Path]:
    return sorted([*SOURCES.glob("*.cpp"), *SOURCES.glob("*.h")])


def find(folder: Path | None = None) -> Path | None:
    """The library if it was compiled before: beside the sources (ahead of time) or in the cache folder."""
    name = library_name()
    for place in (SOURCES, folder or default_folder()):
        path = place / name
        if path.is_file() and path.stat().st_uid in (0, os.getuid()):
            return path
    return None


def build(folder: Path | None = None) -> Path:
    """Compiles into `folder` unless that was done before. Takes some seconds of one core. Raises NativeUnavailable."""
    check_cpu()
    if found := find(folder):
        return found
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NativeUnavailable("The native engine needs a C++ compiler (g++) or a library that was built ahead of time.")
    target = folder or default_folder()
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target) as scratch:
            library = Path(scratch) / "library.so"
            _compile(compiler, library)
            path = target / library_name()
            library.replace(path)  # atomic: another process sees the whole library or none
    except OSError as error:
        raise NativeUnavailable(f"The native engine could not be written to {target}: {error.strerror}.") from None
    return path


def _compile(compiler: str, library: Path) -> None:
    sources = [str(source) for source in source_files() if source.suffix == ".cpp"]
    command = [compiler, *FLAGS, *sources, "-o", str(library)]
    if nice := shutil.which("nice"):
        command = [nice, "-n", "10", *command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise NativeUnavailable(f"Compiling the native engine took longer than {TIMEOUT_SECONDS} seconds.") from None
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
        raise NativeUnavailable(f"The native engine did not compile: {first.strip()[:200]}")


class BackgroundBuild:
    """Compiles in a thread while the caller serves with something slower. `state` is "building", "ready" or "unavailable"."""

    def __init__(self, folder: Path | None = None) -> None:
        self.path: Path | None = None
        self.reason: str | None = None
        self._folder = folder
        self._thread = threading.Thread(target=self._run, name="native-build", daemon=True)
        self._thread.start()

    @property
    def state(self) -> str:
        if self._thread.is_alive():
            return "building"
        return "ready" if self.path else "unavailable"

    def wait(self, seconds: float | None = None) -> str:
        """Waits for the compiler, at most `seconds`; returns the state."""
        self._thread.join(seconds)
        return self.state

    def _run(self) -> None:
        try:
            self.path = build(self._folder)
        except NativeUnavailable as unavailable:
            self.reason = str(unavailable)

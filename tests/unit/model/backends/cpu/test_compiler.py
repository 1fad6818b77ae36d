"""One process at a time compiles, the others use its result, and a program that is stopped ends its compiler."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.models.cpu_models import needs_cpu_backend

pytestmark = [needs_cpu_backend, pytest.mark.slow]  # starts processes
COMPILER = """#!/bin/sh
exec 9> "$HOME/compilers"
case " $* " in *" -c "*) echo unit ;; *) echo linked ;; esac >&9
test -e "$HOME/may-end" || { sleep 300 & wait; }
for last; do :; done
printf '#!/bin/sh\\necho 10' > "$last" && chmod +x "$last"
"""
"""Has a child, as g++ has, and both hold a pipe open while they live. Compiles only where there is a file `may-end`."""
BUILD = ["-c", "from model.backends.cpu.build import build; print(build())"]
PAIR = ["--from", "en", "--to", "de"]
Starts = Callable[[list[str]], subprocess.Popen[str]]


@pytest.fixture
def compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Sets a home folder with a compiler and an empty cache. Returns the pipe of its compilers."""
    (tmp_path / "g++").write_text(COMPILER)
    (tmp_path / "g++").chmod(0o755)
    os.mkfifo(tmp_path / "compilers")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    pipe = os.open(tmp_path / "compilers", os.O_RDONLY | os.O_NONBLOCK)
    yield pipe
    os.close(pipe)


@pytest.fixture
def start(compilers: int) -> Iterator[Starts]:
    """Starts Python with these words, and ends it. A handler for SIGINT is set here, because programs inherit a signal that is
    ignored, as the shell does for what runs in the background, and then do not end."""
    started: list[subprocess.Popen[str]] = []
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)

    def program(words: list[str]) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        started.append(subprocess.Popen([sys.executable, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield program
    signal.signal(signal.SIGINT, handler)
    for each in started:
        each.kill()
        each.communicate()


def read(pipe: int) -> bytes:
    """Returns what the compilers have written, or nothing where all have ended."""
    assert select.select([pipe], [], [], 120)[0]
    return os.read(pipe, 1_000)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (BUILD, signal.SIGINT),
        (BUILD, signal.SIGTERM),
        (BUILD, signal.SIGKILL),
        (["-m", "model.backends.cpu", "build", "ahead"], signal.SIGINT),
        (["-m", "server", "translate", *PAIR], signal.SIGINT),
        (["-m", "server", "look", "Hello", *PAIR], signal.SIGTERM),
        (["-m", "server", "serve", "--port", "0"], signal.SIGTERM),
        (["-m", "server", "serve", "--port", "0"], signal.SIGKILL),
    ],
)
def test_a_program_that_is_stopped_ends_its_compiler(
    compilers: int, start: Starts, tiny_weights: Path, tmp_path: Path, words: list[str], number: int
) -> None:
    settings = ["--weights", str(tiny_weights)] if "server" in words else []
    program = start([str(tmp_path / word) if word == "ahead" else word for word in words] + settings)
    assert read(compilers)
    program.send_signal(number)
    while read(compilers):
        pass


def test_the_others_wait_and_use_the_result(compilers: int, start: Starts, tmp_path: Path) -> None:
    first = start(BUILD)
    assert read(compilers)
    others = [start(BUILD), start(BUILD)]
    for each in others:
        assert each.stderr and "Waiting for another process that compiles the CPU backend" in each.stderr.readline()
    first.kill()  # what it leaves is removed, and one of the others compiles
    (tmp_path / "may-end").touch()
    [library] = {each.communicate()[0].strip() for each in others}
    files = list((tmp_path / ".cache/attentive").glob("*/*"))
    assert Path(library) in files and all(path.is_file() for path in files)
    assert read(compilers).count(b"linked") == len(files)
    assert start(BUILD).communicate() == (f"{library}\n", "")

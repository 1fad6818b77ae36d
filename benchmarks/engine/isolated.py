"""A contestant in a process of its own, so that its threads and its memory are its own."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.engine.contestants import Ids, Spec, build
from model.backends.cpu.isa import Isa

_STARTUP_SECONDS = 300.0
_LIMITS: dict[Isa, dict[str, str]] = {
    "auto": {},
    "avx512": {},
    "avxvnni": {"CT2_FORCE_CPU_ISA": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2_VNNI", "ATEN_CPU_CAPABILITY": "avx2"},
    "avx2": {"CT2_FORCE_CPU_ISA": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
}
"""What keeps CTranslate2, oneDNN, which does its products, and torch to an instruction set. CTranslate2's own variable alone
leaves oneDNN free to use everything that the processor has."""


class ContestantFailed(RuntimeError):
    """The process of a contestant could not do what it was asked for; the message is its error."""


@dataclass(frozen=True, slots=True)
class Run:
    """One timed call: best targets in the order of the sources, seconds inside the process by the clock of its Spec."""

    targets: list[tuple[int, ...]]
    seconds: float


class Isolated:
    """Starts the process and waits until the weights are loaded."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(spec, other), daemon=True)
        # Read when the libraries are first imported, so set before the process starts. Waiting threads must not spin:
        # the next one to be measured needs the cores.
        os.environ.update(OMP_NUM_THREADS=str(spec.threads), MKL_NUM_THREADS=str(spec.threads))
        with _environment(_LIMITS[spec.isa]):
            self._process.start()
        other.close()
        self._ask(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.close()
        self._process.join(10)
        self._process.kill()

    def translate(self, sources: Sequence[Ids], batch: int, beam: int, limit: int) -> Run:
        """See Contestant.translate. Raises ContestantFailed."""
        targets, seconds = self._ask((list(sources), batch, beam, limit))
        return Run(targets, seconds)

    def peak_bytes(self) -> int:
        """Most memory that the process ever held in RAM: weights, libraries and all."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def _ask(self, request: Any) -> Any:
        if request is not None:
            self._pipe.send(request)
        elif not self._pipe.poll(_STARTUP_SECONDS):
            raise ContestantFailed(f"{self.spec.name} did not load within {_STARTUP_SECONDS:.0f} s.")
        try:
            error, answer = self._pipe.recv()
        except EOFError:
            raise ContestantFailed(f"{self.spec.name} died.") from None
        if error is not None:
            raise ContestantFailed(f"{self.spec.name}: {error}")
        return answer


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(spec: Spec, pipe: Connection) -> None:
    """The process: load, then answer requests until the other side hangs up."""
    clock = time.process_time if spec.clock == "processor" else time.perf_counter
    try:
        contestant = build(spec)
        pipe.send((None, None))
        while True:
            request = pipe.recv()
            began = clock()
            targets = contestant.translate(*request)
            pipe.send((None, (targets, clock() - began)))
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001 - whatever it was, the other side is told
        pipe.send((f"{type(error).__name__}: {error}", None))

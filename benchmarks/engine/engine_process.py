"""Runs one engine in a separate process, so that its threads and memory are measured separately."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from benchmarks.engine.adapters import Ids, Spec, build
from model.backends.cpu.isa import Isa

_STARTUP_SECONDS = 300.0
_LIMITS: dict[Isa, dict[str, str]] = {
    "avx512": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"},
    "avxvnni": {
        "CT2_FORCE_CPU_ISA": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2_VNNI",
        "ATEN_CPU_CAPABILITY": "avx2",
    },
    "avx2": {
        "CT2_FORCE_CPU_ISA": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
    },
}
"""Environment variables that limit CTranslate2, oneDNN (which computes its matrix products) and
torch to an instruction set; others have no limit. CT2_FORCE_CPU_ISA alone does not limit oneDNN."""


class EngineFailed(RuntimeError):
    """The process of an engine failed. The message is its error."""


@dataclass(frozen=True, slots=True)
class Run:
    """Result of one timed call: best targets in the order of the sources, and seconds measured
    inside the process."""

    targets: list[tuple[int, ...]]
    seconds: float


class EngineProcess:
    """A process with one engine. The constructor waits until the weights are loaded."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(spec, other), daemon=True)
        # The libraries read these variables when they are first imported.
        threads = {name: str(spec.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        with _environment(threads | _LIMITS.get(spec.isa, {})):
            self._process.start()
        other.close()
        self._request(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pipe.close()
        self._process.join(10)
        self._process.kill()

    def translate(self, sources: Sequence[Ids], batch: int, beam: int, limit: int) -> Run:
        """Calls `translate` in the process. Raises EngineFailed."""
        targets, seconds = self._request((list(sources), batch, beam, limit))
        return Run(targets, seconds)

    def _request(self, request: Any) -> Any:
        if request is not None:
            self._pipe.send(request)
        elif not self._pipe.poll(_STARTUP_SECONDS):
            raise EngineFailed(f"{self.spec.name} did not load within {_STARTUP_SECONDS:.0f} s.")
        try:
            error, answer = self._pipe.recv()
        except EOFError:
            raise EngineFailed(f"{self.spec.name} died.") from None
        if error is not None:
            raise EngineFailed(f"{self.spec.name}: {error}")
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
    """Main function of the process: loads the engine and answers requests until the pipe is
    closed."""
    clock = time.process_time if spec.clock == "processor" else time.perf_counter
    try:
        adapter = build(spec)
        pipe.send((None, None))
        while True:
            request = pipe.recv()
            began = clock()
            targets = adapter.translate(*request)
            pipe.send((None, (targets, clock() - began)))
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001 - every error is sent to the parent process
        pipe.send((f"{type(error).__name__}: {error}", None))

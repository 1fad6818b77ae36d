"""Runs one engine in a separate process, so that its threads and memory are measured separately."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Self, TypeVar

from benchmarks.engine.adapters import Attentive, CTranslate2, Ids, Spec, build
from model.backends.cpu.isa import Isa

_STARTUP_SECONDS = 300.0
Result = TypeVar("Result")
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
_LOADED: list[tuple[Spec, Attentive | CTranslate2]] = []
"""The engine of a process that `EngineProcess` started."""


@dataclass(frozen=True, slots=True)
class Run:
    """Result of one timed call: best targets in the order of the sources, and seconds measured
    inside the process."""

    targets: list[tuple[int, ...]]
    seconds: float


class EngineProcess:
    """A process with one engine. The constructor waits until the weights are loaded. Errors of the
    engine, and a process that died, are RuntimeErrors."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._process = ProcessPoolExecutor(1, get_context("spawn"))
        # The libraries read these variables when they are first imported.
        threads = {name: str(spec.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        with _environment(threads | _LIMITS.get(spec.isa, {})):
            loaded = self._process.submit(_load, spec)
        self._result(loaded, _STARTUP_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.shutdown()

    def translate(self, sources: Sequence[Ids], batch: int, beam: int, limit: int) -> Run:
        """Calls `translate` in the process."""
        return self._result(self._process.submit(_translate, list(sources), batch, beam, limit))

    def _result(self, future: Future[Result], seconds: float | None = None) -> Result:
        try:
            return future.result(seconds)
        except Exception as error:
            raise RuntimeError(f"{self.spec.name}: {type(error).__name__}: {error}") from error


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


def _load(spec: Spec) -> None:
    """Loads the engine of this process."""
    _LOADED.append((spec, build(spec)))


def _translate(sources: list[Ids], batch: int, beam: int, limit: int) -> Run:
    [(spec, engine)] = _LOADED
    clock = time.process_time if spec.clock == "processor" else time.perf_counter
    began = clock()
    targets = engine.translate(sources, batch, beam, limit)
    return Run(targets, clock() - began)

"""Where the time of the CPU engine goes, by kind of work: a library that is compiled with
counters."""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.engine.adapters import Ids
from model.backends.cpu.backend import CpuBackend, open_backend
from model.backends.cpu.build import FLAGS, SOURCES, build, compiled, library_name, source_files
from model.backends.cpu.isa import available
from model.model_folder import ModelFolder

Microseconds = NDArray[np.float64]
WORK = ("products", "attention", "write", "quantise", "norms", "top-k", "meeting", "other")
HEADER = ("pass", "threads", "rows", *WORK, "all", "without products")
_ORDER = ("idle", "other", *WORK[:-1])
"""Kinds of work in the order of `Work` in csrc/layers/profile.h; idle is the time outside calls."""


def profile(
    folder: ModelFolder, sources: Sequence[Ids], options: argparse.Namespace, scratch: Path
) -> list[list[object]]:
    """Returns the table HEADER of int8: microseconds of one core by row and step of greedy
    decoding, and by source token of encoding. Each figure is the least of all rounds."""
    library = _counting_library(options, scratch)
    table: list[list[object]] = []
    for threads in sorted({1, options.threads}):
        backend = open_backend(
            folder, library, slots=max(options.batches), threads=threads, precision="int8"
        )
        for rows in options.batches:
            least: dict[str, Microseconds] = {}
            for turn in range(options.rounds + 1):
                for name, times in _run(backend, library, sources[:rows], options.tokens).items():
                    if turn:
                        least[name] = np.minimum(least.get(name, times), times)
            for name, times in least.items():
                parts = dict(zip(_ORDER, times, strict=True))
                others = sum(parts[work] for work in WORK[1:])
                figures = [*(parts[work] for work in WORK), parts["products"] + others, others]
                table.append([name, threads, rows, *map(float, figures)])
        backend.close()
    return table


def _run(
    backend: CpuBackend, library: Path, sources: Sequence[Ids], steps: int
) -> dict[str, Microseconds]:
    """Encodes the sources and decodes `steps` tokens: microseconds of each kind of work by source
    token, and by row and step."""
    slots, rows = range(len(sources)), len(sources)
    _times(library)
    backend.prefill(sources, slots)
    encoder = _times(library)
    for _ in range(steps):
        backend.step(slots, [backend.config.decoder_start_id] * rows, 1, [-1] * rows)
    decoder = _times(library)
    backend.free(slots)
    return {"encode": encoder / sum(map(len, sources)), "decode": decoder / (rows * steps)}


def _times(library: Path) -> Microseconds:
    """Microseconds of each kind of work since the last call."""
    times = np.zeros(len(_ORDER), dtype=np.int64)
    ctypes.CDLL(str(library)).attentive_profile(ctypes.c_void_p(times.ctypes.data))
    return times / 1000


def _counting_library(options: argparse.Namespace, scratch: Path) -> Path:
    """Compiles the library of the instruction set that is measured, with counters."""
    name = build(options.isa).name
    chosen = next(each for each in available(options.isa) if library_name(each) == name)
    flags = (*FLAGS, *chosen.compiler_flags, "-DATTENTIVE_PROFILE", f"-I{SOURCES}")
    return compiled(scratch / f"profile-{name}", flags, source_files())

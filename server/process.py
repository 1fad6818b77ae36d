"""Settings of the processes of a server: threads of NumPy, garbage collection, and which process ends first."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path

_VARIABLE = "OPENBLAS_NUM_THREADS"
ONE_THREAD = {_VARIABLE: "1"}
"""Variables of an environment in which NumPy is imported with one thread.

OpenBLAS has a thread for each core, and these wait in a loop for each other. Beside a worker that uses all cores
a study of an encoder in NumPy took 20 times as much processor time, and the loading of a model 10 times.
"""
MORE = 300
"""Thousandths of all memory that this process must use more than its child to be ended in its place."""


@contextlib.contextmanager
def single_blas_thread() -> Iterator[None]:
    """Imports of NumPy inside give it one thread for matrix products, unless the environment sets a number. The
    environment is restored for PyTorch and for the processes that this one starts."""
    if _VARIABLE in os.environ:
        yield
        return
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        remove_one_thread()


def remove_one_thread() -> None:
    """Removes ONE_THREAD for the processes that this one starts. NumPy has read it at its import."""
    os.environ.pop(_VARIABLE, None)


def end_first(child: int) -> None:
    """Makes Linux end the process `child` before this one where memory is used up. The child is started again and its
    work is repeated; with this process all requests would be lost. Elsewhere it does nothing."""
    with contextlib.suppress(OSError):
        own = int(Path("/proc/self/oom_score_adj").read_text(encoding="ascii"))
        Path(f"/proc/{child}/oom_score_adj").write_text(str(min(own + MORE, 1000)), encoding="ascii")


def tune_garbage_collector() -> None:
    """Excludes all current objects from garbage collection and makes collections less frequent: with Python's default of
    700 new objects nearly every object that a collection examines belongs to a request in progress. Call it once, after
    all imports."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)

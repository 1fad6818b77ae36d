"""The number of NumPy's threads in the API process and the workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLE = "OPENBLAS_NUM_THREADS"
ONE_THREAD = {_VARIABLE: "1"}
"""Variables of an environment in which NumPy is imported with one thread.

OpenBLAS has a thread for each core, and these wait in a loop for each other. Beside a worker that uses all cores
`GET /encoder` took 20 times as much processor time, and the loading of a model 10 times.
"""


@contextmanager
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
    """Removes the variables of ONE_THREAD for the processes that this one starts. NumPy has read them at its import."""
    for name in ONE_THREAD:
        os.environ.pop(name, None)

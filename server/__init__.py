"""The translation server: HTTP API, queue, worker processes, history, metrics."""

import os
from functools import cache

# NumPy has one thread for matrix products. OpenBLAS has one for each core, and these wait in a loop
# for each other: beside a worker that uses all cores a study of an encoder took 20 times as much
# processor time, and the loading of a model 10 times.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@cache
def server_version() -> str:
    """Returns the version of the installed distribution, or "development" for a source tree that is
    not installed."""
    from importlib.metadata import PackageNotFoundError, version  # a worker does not need it

    try:
        return version("attentive-server")
    except PackageNotFoundError:
        return "development"

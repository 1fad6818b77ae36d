"""The program of a worker process: `python -m server.engine.worker INDEX OPTIONS`."""

from __future__ import annotations

import os
import sys

from server.process import single_blas_thread

if __name__ == "__main__":
    with single_blas_thread():  # a model is loaded with NumPy, often beside one that decodes on all cores
        from server.engine.worker.main import serve
        from server.engine.worker.model_runner import ModelRunner

    code = serve(sys.argv[1:], ModelRunner)
    sys.stdout.flush()
    os._exit(code)  # do not wait for threads that load or compile

"""The program of a worker process: `python -m server.engine.worker INDEX OPTIONS`."""

from __future__ import annotations

import os
import sys
import traceback

from server.engine.worker.loop import serve
from server.engine.worker.model_runner import ModelRunner

if __name__ == "__main__":
    code = 1
    try:
        code = serve(sys.argv[1:], ModelRunner)
    except BaseException:  # noqa: BLE001  the process ends
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)  # do not wait for threads that load or compile, nor for a device that is broken

"""Runs a worker: sets up its process, makes the runner of its device, and serves until the API
process ends it."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence

from server.engine.ipc.options import NO_DEVICE_STATUS, WorkerOptions
from server.engine.worker.connections import Connections
from server.engine.worker.device_config import NoDevice
from server.engine.worker.loop import WorkerLoop
from server.engine.worker.model_runner import ModelRunner
from server.process import tune_garbage_collector


def serve(
    arguments: Sequence[str], make_runner: Callable[[WorkerOptions, int, bool], ModelRunner]
) -> int:
    """Runs the worker's loop and returns the exit code. `arguments` are INDEX OPTIONS [GPU], where
    GPU is the UUID of the only one that it sees; `make_runner` makes the runner of device INDEX.

    Messages pass through standard input and output; what libraries print goes to standard error.
    SIGINT and SIGTERM are ignored: a service manager sends them to all processes, and the API
    process decides when workers end.
    """
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would contain texts of callers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    index, text, *gpu = arguments
    reader, writer = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    options = WorkerOptions.from_json(text)
    try:
        runner = make_runner(options, int(index), bool(gpu))
    except NoDevice as reason:
        sys.stderr.write(f"{reason}\n")
        return NO_DEVICE_STATUS
    tune_garbage_collector()
    path = options.socket_of(int(index)) if options.sockets else ""
    WorkerLoop(Connections(reader, writer, path), runner, options).serve()
    return 0

"""Runs a worker: sets up its process, makes the runner of its device, and serves until the API process ends it."""

from __future__ import annotations

import faulthandler
import resource
import signal
from collections.abc import Callable, Sequence

from server.engine.gc_tuning import tune_garbage_collector
from server.engine.ipc.options import NO_DEVICE_STATUS, WorkerOptions
from server.engine.ipc.transport import Pipes
from server.engine.worker.device_config import NoDevice
from server.engine.worker.loop import WorkerLoop
from server.engine.worker.model_runner import ModelRunner


def serve(arguments: Sequence[str], make_runner: Callable[[WorkerOptions, int], ModelRunner]) -> int:
    """Runs the worker's loop and returns the exit code. `arguments` are READ_FD WRITE_FD INDEX OPTIONS; `make_runner`
    makes the runner of device INDEX.

    SIGINT and SIGTERM are ignored: they reach the whole process group, and the API process decides when workers end.
    The API process starts the worker with these signals blocked.
    """
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would contain texts of callers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    read_fd, write_fd, index, text = arguments
    pipes = Pipes(int(read_fd), int(write_fd))
    options = WorkerOptions.from_json(text)
    try:
        runner = make_runner(options, int(index))
    except NoDevice:
        return NO_DEVICE_STATUS
    tune_garbage_collector()
    WorkerLoop(pipes, runner, options).serve()
    return 0

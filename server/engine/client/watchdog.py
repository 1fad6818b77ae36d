"""Detects a worker that hangs."""

from __future__ import annotations

from server.engine.ipc.options import WorkerOptions


class Watchdog:
    """Counts the seconds in which a worker starts, loads a model, or has jobs and sends nothing.

    Time is counted in ticks that the caller bounds, so a pause of the API process itself does not count against the worker.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._waited = self._silent = 0.0

    def restart_wait(self) -> None:
        """Resets the time of starting or of loading a model. Called when either begins."""
        self._waited = 0.0

    def restart_silence(self) -> None:
        """Resets the time without a message. Called when the worker sends something or receives its first job."""
        self._silent = 0.0

    def tick(self, seconds: float, *, ready: bool, loading: bool, has_jobs: bool) -> str | None:
        """Adds `seconds`; returns what the worker failed to do in time, None if nothing."""
        self._waited += seconds
        self._silent += seconds
        if not ready and self._waited > self._options.start_seconds:
            return "did not start"
        if loading and self._waited > self._options.load_seconds:
            return "did not finish loading a model"
        if ready and has_jobs and self._silent > self._options.watchdog_seconds:
            return "hangs in a step"
        return None

"""The API side of the workers: submit -> future; starts, watches and restarts one worker process per device. No torch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from model.options import DecodingOptions
from server.worker.options import WorkerOptions
from server.worker.protocol import Attended, FailureKind, ModelLoaded, StepStats, Translated

__all__ = ["DeviceStatus", "Supervisor", "WorkerFailure", "WorkerOptions", "WorkerStatus"]


class WorkerFailure(Exception):
    """A job that was accepted could not be done. `kind` says why, `message` is one sentence for the caller."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """One worker process. `up` is True while it runs and takes jobs."""

    device: str
    up: bool
    pid: int | None
    restarts: int
    jobs: int


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """All workers together. `ready`: at least one worker is up and has every model loaded; `models`: names that can be
    served now; `device`, `dtype`, `engine` and `details` are those of the first worker; `errors` maps a model to the
    sentence that says why it cannot be loaded; `restarts` counts all restarts since the start."""

    ready: bool
    device: str
    dtype: str
    engine: str
    details: dict[str, str]
    restarts: int
    models: tuple[str, ...]
    errors: dict[str, str] = field(default_factory=dict)
    workers: tuple[DeviceStatus, ...] = ()
    in_flight: int = 0


class Supervisor:
    """Owner of the worker processes; every method belongs to one event loop.

    `on_stats` is called with every StepStats (sums since the one before it). Every future that `submit` and `attend`
    return resolves: with an answer, or with WorkerFailure. Cancelling a future cancels the work.
    """

    def __init__(self, options: WorkerOptions, on_stats: Callable[[StepStats], None]) -> None:
        self._options = options
        self._on_stats = on_stats

    async def start(self) -> None:
        """Start the worker processes; returns at once, `status().ready` turns true later."""
        raise WorkerFailure("internal", "The worker is not there yet.")

    async def stop(self, grace_seconds: float) -> None:
        """Let accepted jobs finish for at most `grace_seconds`, then end the workers; what is left fails as cancelled."""
        raise WorkerFailure("internal", "The worker is not there yet.")

    async def load(self, model: str, folder: Path) -> ModelLoaded:
        """Load or replace a model in every worker; waits for workers that are still starting. `error` says what is wrong."""
        raise WorkerFailure("internal", "The worker is not there yet.")

    async def unload(self, model: str) -> None:
        """Take no further jobs for this model; those accepted finish first."""
        raise WorkerFailure("internal", "The worker is not there yet.")

    def submit(
        self,
        model: str,
        source: Iterable[int],
        options: DecodingOptions,
        *,
        priority: int = 0,
        client: str = "",
        timeout: float | None = None,
        on_progress: Callable[[tuple[int, ...]], None] | None = None,
    ) -> asyncio.Future[Translated]:
        """Translate one sentence of ids. `priority` 0 interactive, 1 document; `timeout` in seconds from now;
        `on_progress` gets the tokens so far. The future raises WorkerFailure."""
        raise WorkerFailure("internal", "The worker is not there yet.")

    def attend(
        self,
        model: str,
        source: Iterable[int],
        target: Iterable[int],
        masked_heads: tuple[tuple[str, int, int], ...] = (),
        timeout: float | None = None,
    ) -> asyncio.Future[Attended]:
        """Attention maps of a given pair. The future raises WorkerFailure."""
        raise WorkerFailure("internal", "The worker is not there yet.")

    def status(self) -> WorkerStatus:
        """What the workers are doing now; never waits."""
        return WorkerStatus(False, self._options.device, self._options.dtype, "", {}, 0, ())

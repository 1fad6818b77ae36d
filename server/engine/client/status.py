"""The state of the workers as the API process sees it, and why a job failed. No torch."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from server.engine.ipc.messages import FailureKind, StepStats
from server.errors import (
    AttentiveError,
    ExpiredTranslation,
    InvalidRequest,
    TranslationFailed,
    Unavailable,
)

WorkerState = Literal["starting", "up", "frozen"]
_FOLDERS = re.compile(r"""[^\s'"]*/(?=[^\s'"])""")


def without_folders(sentence: str) -> str:
    """Returns the sentence with the names of files only, because GET /ready and GET /metrics need
    no key."""
    return _FOLDERS.sub("", sentence)


class WorkerFailure(Exception):
    """An accepted job failed. `kind` is the reason, `message` one sentence for the caller."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def server_error(failure: WorkerFailure) -> AttentiveError:
    """Returns the error of `server.errors` for a worker's failure."""
    match failure.kind:
        case "invalid":
            return InvalidRequest(failure.message)
        case "gone":
            return ExpiredTranslation(failure.message)
        case "cancelled" | "unknown_model" | "unavailable" | "out_of_memory":
            return Unavailable(failure.message)
        case _:
            return TranslationFailed(failure.message)


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """One worker process. `up` is True while it runs and takes jobs; `jobs` is the number it has
    not answered. `hangs` is how many of the restarts were of processes that hung. `engine`, `dtype`
    and `kernels` say how it computes, and `reason` why not in a faster way; they are empty while it
    starts."""

    device: str
    up: bool
    pid: int | None
    restarts: int
    jobs: int
    state: WorkerState = "up"
    hangs: int = 0
    engine: str = ""
    dtype: str = ""
    kernels: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """All workers together.

    `ready` is True while a worker is up, not frozen, and has every model that was loaded before:
    jobs are also accepted while it is not, and wait. `models` can be served now, or after the
    restart. `device`, `dtype`, `engine` and `details` are those of the first worker that is up.
    `errors` maps a model to the reason why it cannot be loaded. `restarts` counts all restarts
    since the start. `no_device` is True where the options require a GPU and there is none; no
    worker is started again then.
    """

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
    no_device: bool = False
    reports: tuple[StepStats, ...] = ()
    """The last one of each worker."""

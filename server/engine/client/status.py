"""The state of the workers, and the failure of a job."""

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
    """Returns the sentence without the folders of files: GET /ready and GET /metrics need no
    key."""
    return _FOLDERS.sub("", sentence)


class WorkerFailure(Exception):
    """The failure of an accepted job; `message` is one sentence for the caller."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def server_error(failure: WorkerFailure) -> AttentiveError:
    """Returns the error of `server.errors` for a failure."""
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
    """One worker process. `up` is True while it takes jobs; `jobs` is the number of unanswered ones.
    `hangs` counts the restarts after a hang. `engine`, `dtype` and `kernels` say how it computes,
    `reason` why not faster; they are empty while it starts."""

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

    `ready` is True while a worker that is not frozen has every model that was loaded before; jobs
    are also accepted while it is False, and wait. `models` can be served now or after the restart. `device`, `dtype`,
    `engine` and `details` are those of the first worker that is up. `errors` are reasons by model
    that cannot be loaded. `no_device` is True where the options require a GPU and there is none:
    no worker is started again.
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

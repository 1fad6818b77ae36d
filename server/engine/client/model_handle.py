"""A model as the API process sees it: its load in the workers, and its use. It outlives the
workers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from server.engine.ipc.messages import LoadModel, ModelLoaded

_MAX_ENDS = 3
"""Ends of workers that were loading a model, after which it is not loaded again."""


class EngineModel(Protocol):
    """A model as the workers load it. `key` identifies the content of `folder`; `bytes` is the size
    of the weight files."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def folder(self) -> Path: ...
    @property
    def bytes(self) -> int: ...


@dataclass(slots=True, eq=False)
class ModelHandle:
    """A model that workers load. `outcome` is what callers of `answer` await; `users` and `used`
    (on time.monotonic()) say whether and when it was used."""

    model: EngineModel
    outcome: asyncio.Future[ModelLoaded] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    error: str | None = None
    """Why no worker tries to load it any more; those that have loaded it serve it."""
    ends: int = 0
    """How often workers ended while they loaded it; once for those of several GPUs that made the
    same attempt."""
    unloading: bool = False
    loaded: ModelLoaded | None = None
    """The answer of the last worker that loaded it."""
    users: int = 0
    used: float = field(default_factory=time.monotonic)

    @property
    def key(self) -> str:
        return self.model.key

    @property
    def bytes(self) -> int:
        """The size of the weight files, or what the model takes on a GPU."""
        return (self.loaded.bytes if self.loaded is not None else 0) or self.model.bytes

    @property
    def failed(self) -> bool:
        """Whether it is not served, for a reason that lies in the model."""
        return (
            self.error is not None
            and self.outcome.done()
            and self.outcome.result().error is not None
        )

    async def answer(self) -> ModelLoaded:
        """Returns the outcome of the load; `error` of it says why it failed, which may lie in the
        workers."""
        return self.outcome.result() if self.outcome.done() else await asyncio.shield(self.outcome)

    def resolve(self, error: str | None = None) -> None:
        """Answers the callers of `answer`, once: after an error that lies in the workers, one that
        starts later loads it nevertheless, and later callers get that answer."""
        if self.outcome.done() and error is None and self.outcome.result().error is not None:
            self.outcome = asyncio.get_running_loop().create_future()
        if not self.outcome.done():
            answer = self.loaded if error is None else None
            self.outcome.set_result(answer or ModelLoaded(self.key, error=error))

    def fail(self, error: str) -> None:
        """Answers this and all later callers of `answer` with an error that lies in the model."""
        self.error = error
        if self.outcome.done():
            self.outcome = asyncio.get_running_loop().create_future()
        self.resolve(error)

    def record_exit(self, load: LoadModel) -> str:
        """A worker ended before it answered `load`. Returns the error after so many ends that it is
        not loaded again."""
        self.ends = max(self.ends, load.ends + 1)
        return "The model worker died while it loaded this model." if self.ends >= _MAX_ENDS else ""

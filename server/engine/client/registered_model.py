"""A model that every worker should have, and the state of its load. It outlives the workers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from server.engine.ipc.messages import LoadModel, ModelLoaded

_MAX_ENDS = 3
"""Ends of workers that were loading a model, after which it is not loaded again."""


@dataclass(slots=True, eq=False)
class RegisteredModel:
    """A model that workers should load. `name` stands for one content of the folder; `outcome` is what callers of `load`
    await."""

    name: str
    folder: str
    outcome: asyncio.Future[ModelLoaded] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    error: str | None = None
    ends: int = 0
    """How often workers ended while they loaded it; once for those of several GPUs that made the same attempt."""
    unloading: bool = False
    loaded: ModelLoaded | None = None
    """The answer of the last worker that loaded it."""

    def resolve(self, error: str | None = None) -> None:
        """Answers the callers of `load`, if they wait. After an error a worker that starts later loads it nevertheless, and
        later callers get that answer."""
        if self.outcome.done() and error is None and self.outcome.result().error is not None:
            self.outcome = asyncio.get_running_loop().create_future()
        if not self.outcome.done():
            answer = self.loaded if error is None else None
            self.outcome.set_result(answer or ModelLoaded(self.name, error=error))

    def fail(self, error: str) -> None:
        """Ends the load with an error: no worker tries it again."""
        self.error = error
        self.resolve(error)

    def record_exit(self, load: LoadModel) -> str:
        """A worker ended before it answered `load`. Returns the error after so many ends that it is not loaded again."""
        self.ends = max(self.ends, load.ends + 1)
        return "The model worker died while it loaded this model." if self.ends >= _MAX_ENDS else ""

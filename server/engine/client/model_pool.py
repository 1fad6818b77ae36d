"""The models in the workers: loads them when they are needed, and unloads those that are idle or,
where memory is short, the least recently used."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from server.engine.ipc.messages import LoadModel, ModelLoaded
from server.errors import ModelFailed, Unavailable

if TYPE_CHECKING:
    from server.engine.client.worker_pool import WorkerPool

log = logging.getLogger(__name__)
UNLOADED = "The model was unloaded."
_MAX_ENDS = 3
"""Ends of workers that were loading a model, after which it is not loaded again."""


class EngineModel(Protocol):
    """A model as workers load it. `key` identifies the content of `folder`; `bytes` is the size of
    the weight files."""

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
    """A model that workers load; it outlives them. `outcome` is what callers of `answer` await;
    `users` and `used` (on time.monotonic()) say whether and when it was used."""

    model: EngineModel
    outcome: asyncio.Future[ModelLoaded] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    error: str | None = None
    """Why no further worker loads it; those that have loaded it serve it."""
    ends: int = 0
    """How often workers ended while they loaded it; several workers of one attempt count once."""
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
        """Whether it is not served because of the model itself."""
        return (
            self.error is not None
            and self.outcome.done()
            and self.outcome.result().error is not None
        )

    async def answer(self) -> ModelLoaded:
        """Returns the outcome of the load; its `error` may lie in the model or in the workers."""
        return self.outcome.result() if self.outcome.done() else await asyncio.shield(self.outcome)

    def resolve(self, error: str | None = None) -> None:
        """Answers the callers of `answer`. After an error that lies in the workers, a worker that
        starts later may still load it: later callers then get that answer."""
        if self.outcome.done() and error is None and self.outcome.result().error is not None:
            self.outcome = asyncio.get_running_loop().create_future()
        if not self.outcome.done():
            answer = self.loaded if error is None else None
            self.outcome.set_result(answer or ModelLoaded(self.key, error=error))

    def fail(self, error: str) -> None:
        """Answers all present and later callers of `answer` with an error of the model."""
        self.error = error
        if self.outcome.done():
            self.outcome = asyncio.get_running_loop().create_future()
        self.resolve(error)

    def record_exit(self, load: LoadModel) -> str:
        """Records that a worker ended before it answered `load`. Returns the error after _MAX_ENDS
        of them, else an empty text."""
        self.ends = max(self.ends, load.ends + 1)
        return "The model worker died while it loaded this model." if self.ends >= _MAX_ENDS else ""


class _Holding:
    """Keeps a model loaded. A class, because a generator is slower and sentences need two."""

    def __init__(self, handle: ModelHandle) -> None:
        self._handle = handle

    async def __aenter__(self) -> ModelLoaded:
        handle = self._handle
        handle.unloading = False
        handle.users += 1
        try:
            outcome = handle.outcome
            answer = outcome.result() if outcome.done() else await handle.answer()
            if answer.error is not None:
                kind = ModelFailed if handle.failed else Unavailable
                raise kind(f"The model {handle.model.name} cannot be loaded: {answer.error}")
        except BaseException:
            self._release()
            raise
        return answer

    async def __aexit__(self, *_: object) -> None:
        self._release()

    def _release(self) -> None:
        self._handle.users -= 1
        self._handle.used = time.monotonic()


class ModelPool:
    """Loads and unloads models on the workers of one pool; belongs to its event loop.

    `limit` bounds the bytes of the loaded models: of their weight files, or what they take on a GPU
    (0: no bound). Models in use at the same time may exceed it: a request waits for a load, never
    for another request. `idle_seconds` is the time after which `unload_idle` unloads an unused
    model (0: never). `logs` says whether loads are logged.
    """

    logs = True

    def __init__(self, workers: WorkerPool, limit: int = 0, idle_seconds: float = 0.0) -> None:
        self.workers = workers
        self.limit = limit
        self.idle_seconds = idle_seconds
        self._handles: dict[str, ModelHandle] = {}
        self._loads: set[asyncio.Task[None]] = set()

    @property
    def bytes(self) -> int:
        """Bytes of the models that are loaded or being loaded."""
        return sum(handle.bytes for handle in self._handles.values() if not handle.failed)

    def holding(self, model: EngineModel) -> _Holding:
        """Loads the model if needed, and keeps it loaded during the `async with` block. Raises
        ModelFailed where it cannot be loaded, until `load` tries it again, and Unavailable where
        the workers are the reason."""
        return _Holding(self._handles.get(model.key) or self._begin(model))

    async def load(self, model: EngineModel) -> ModelLoaded:
        """Loads a model, also one that failed before; `error` of the answer says why it failed."""
        handle = self._handles.get(model.key)
        if handle is None or handle.failed:
            handle = self._begin(model)
        answer = await handle.answer()
        handle.used = time.monotonic()
        return answer

    async def preload(self, models: Iterable[EngineModel]) -> dict[str, str]:
        """Loads as many models as the limit allows, in order, at least one. Returns errors by model
        name."""
        chosen: list[EngineModel] = []
        for model in models:
            size = self.bytes + sum(other.bytes for other in chosen) + model.bytes
            if not chosen or not self.limit or size <= self.limit:
                chosen.append(model)
        answers = await asyncio.gather(*(self.load(model) for model in chosen))
        return {
            model.name: answer.error
            for model, answer in zip(chosen, answers, strict=True)
            if answer.error
        }

    async def unload(self, key: str) -> None:
        """Unloads a model after its jobs, unless it is used again before."""
        if (handle := self._handles.get(key)) is not None:
            handle.unloading = True
            await self.workers.unload(handle)
            if handle.unloading and self._handles.get(key) is handle:
                del self._handles[key]

    @property
    def in_use(self) -> dict[str, int]:
        """The number of users of each model that has some."""
        return {key: handle.users for key, handle in self._handles.items() if handle.users}

    def use(self, key: str, users: int) -> None:
        """Adds users of a model in another process, or removes them."""
        if (handle := self._handles.get(key)) is not None:
            handle.users, handle.used = max(0, handle.users + users), time.monotonic()

    def forget(self, key: str) -> None:
        """Forgets a model that another process loads and unloads."""
        self._handles.pop(key, None)

    def failed(self, key: str) -> bool:
        """Returns whether a model could not be loaded because of the model itself."""
        return (handle := self._handles.get(key)) is not None and handle.failed

    async def unload_idle(self) -> None:
        least = time.monotonic() - (self.idle_seconds or math.inf)
        while (oldest := self._oldest()) and oldest.used < least:
            log.info("idle model unloaded", extra={"model": oldest.key})
            self.workers.rests = True
            await self.unload(oldest.key)

    def _oldest(self) -> ModelHandle | None:
        handles = self._handles.values()
        idle = [
            each for each in handles if each.outcome.done() and not each.users and not each.failed
        ]
        return min(idle, key=lambda handle: handle.used, default=None)

    def _begin(self, model: EngineModel) -> ModelHandle:
        handle = self._handles[model.key] = ModelHandle(model)
        task = asyncio.ensure_future(self._load(handle))
        self._loads.add(task)
        task.add_done_callback(self._loads.discard)
        return handle

    async def _load(self, handle: ModelHandle) -> None:
        while self.limit and self.bytes > self.limit and (oldest := self._oldest()):
            log.info("model unloaded to make room", extra={"model": oldest.key})
            await self.unload(oldest.key)
        if handle.unloading:
            handle.resolve(UNLOADED)
            return
        answer = await self.workers.load(handle)
        if answer.error is None and self.logs:
            log.info(
                "model loaded", extra={"model": handle.key, "seconds": round(answer.seconds, 3)}
            )

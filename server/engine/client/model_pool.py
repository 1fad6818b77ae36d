"""Loads models into the workers when they are needed, and unloads those that are idle or, where memory is short, the least
recently used."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from server.engine.client.job_dispatcher import NO_WORKER, SHUTDOWN
from server.engine.client.worker_pool import UNLOADED, WorkerPool
from server.engine.ipc.messages import ModelLoaded
from server.engine.ipc.options import NO_DEVICE
from server.errors import ModelFailed, Unavailable

log = logging.getLogger(__name__)
_OF_THE_WORKERS = (SHUTDOWN, NO_WORKER, NO_DEVICE, UNLOADED)
"""Errors of a load that say nothing of the model."""


class EngineModel(Protocol):
    """A model as the workers load it. `key` identifies the content of `folder`; `bytes` is the size of the weight
    files."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def folder(self) -> Path: ...
    @property
    def bytes(self) -> int: ...


@dataclass(slots=True, eq=False)
class _State:
    model: EngineModel
    loading: asyncio.Future[ModelLoaded]
    users: int = 0
    used: float = 0.0

    @property
    def bytes(self) -> int:
        """The size of the weight files, or what the model takes on a GPU."""
        return (self.loading.result().bytes if self.loading.done() else 0) or self.model.bytes


class ModelPool:
    """Loads and unloads models on the workers of one pool; belongs to its event loop.

    `limit` bounds the models in memory by the size of their weight files in bytes, or by what they take on a GPU (0: no
    bound). Models that are in use at the same time may exceed it: a request waits for a load, never for another request.
    `unload_idle` unloads the models that were not used for `idle_seconds` (0: none).
    """

    def __init__(self, workers: WorkerPool, limit: int = 0, idle_seconds: float = 0.0) -> None:
        self.workers = workers
        self.limit = limit
        self.idle_seconds = idle_seconds
        self._states: dict[str, _State] = {}
        self._errors: dict[str, str] = {}
        """Why models could not be loaded, by key: only `load` tries them again."""
        self.on_failed: Callable[[EngineModel, str], None] = lambda model, error: None
        """Is called with a model that cannot be loaded and the reason, before those who wait for it go on."""
        workers.on_model_lost = self._lost

    @property
    def bytes(self) -> int:
        """Size of the models that are loaded or being loaded."""
        return sum(state.bytes for state in self._states.values())

    @asynccontextmanager
    async def holding(self, model: EngineModel) -> AsyncIterator[None]:
        """Loads the model if needed, and keeps it loaded while the block runs. Raises ModelFailed where it cannot be
        loaded, Unavailable where the workers are the reason."""
        if error := self._errors.get(model.key):
            raise ModelFailed(_refusal(model, error))
        state = self._states.get(model.key) or self._begin(model)
        state.users += 1
        try:
            if not state.loading.done():
                await asyncio.shield(state.loading)
            if error := state.loading.result().error:
                kind = Unavailable if error in _OF_THE_WORKERS else ModelFailed
                raise kind(_refusal(model, error))
            yield
        finally:
            state.users -= 1
            state.used = time.monotonic()

    def shortlist(self, model: EngineModel) -> str:
        """Returns the digest of the shortlist that limits the targets of a loaded model; "" if none does."""
        return self._states[model.key].loading.result().shortlist

    async def load(self, model: EngineModel) -> ModelLoaded:
        """Loads a model that is not loaded; `error` of the answer is set where it cannot be loaded."""
        self._errors.pop(model.key, None)
        state = self._states.get(model.key) or self._begin(model)
        answer = await asyncio.shield(state.loading)
        state.used = time.monotonic()
        return answer

    async def preload(self, models: Iterable[EngineModel]) -> dict[str, str]:
        """Loads as many models as the limit allows, in order, at least the first. Returns errors by model name."""
        chosen: list[EngineModel] = []
        for model in models:
            if (
                not chosen
                or not self.limit
                or self.bytes + sum(other.bytes for other in chosen) + model.bytes <= self.limit
            ):
                chosen.append(model)
        answers = await asyncio.gather(*(self.load(model) for model in chosen))
        return {model.name: answer.error for model, answer in zip(chosen, answers, strict=True) if answer.error}

    async def unload(self, key: str) -> None:
        """Unloads a model that is no longer served."""
        if self._states.pop(key, None) is not None:
            await self.workers.unload(key)

    async def unload_idle(self) -> None:
        """Unloads the models that were not used for `idle_seconds`, if that is not 0."""
        least = time.monotonic() - (self.idle_seconds or math.inf)
        while (oldest := self._oldest()) and oldest.used < least:
            log.info("idle model unloaded", extra={"model": oldest.model.key})
            self.workers.rests = True
            await self.unload(oldest.model.key)

    def _oldest(self) -> _State | None:
        """Returns the least recently used model of those that are not in use."""
        idle = [state for state in self._states.values() if state.loading.done() and not state.users]
        return min(idle, key=lambda state: state.used, default=None)

    def _begin(self, model: EngineModel) -> _State:
        state = self._states[model.key] = _State(model, asyncio.ensure_future(self._load(model)), used=time.monotonic())
        return state

    async def _load(self, model: EngineModel) -> ModelLoaded:
        await self._make_room()
        answer = await self.workers.load(model.key, model.folder)
        if answer.error:
            self._states.pop(model.key, None)
            if answer.error not in _OF_THE_WORKERS:
                self._errors[model.key] = answer.error
                self.on_failed(model, answer.error)
        else:
            log.info("model loaded", extra={"model": model.key, "seconds": round(answer.seconds, 3)})
        return answer

    def _lost(self, key: str, error: str) -> None:
        """The workers could not load a model again after a restart."""
        if (state := self._states.pop(key, None)) is not None:
            self._errors[key] = error
            self.on_failed(state.model, error)

    async def _make_room(self) -> None:
        while self.limit and self.bytes > self.limit and (oldest := self._oldest()):
            log.info("model unloaded to make room", extra={"model": oldest.model.key})
            await self.unload(oldest.model.key)


def _refusal(model: EngineModel, error: str) -> str:
    return f"The model {model.name} cannot be loaded: {error}"

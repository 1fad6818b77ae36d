"""Which models are in the workers' memory: loaded when they are needed, and the longest unused go when memory is
short."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType

from server.engine.client.supervisor import Supervisor
from server.engine.ipc.messages import ModelLoaded
from server.errors import Unavailable
from server.translation.catalog import ServedModel

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _State:
    model: ServedModel
    loading: asyncio.Future[ModelLoaded]
    users: int = 0
    used: float = 0.0

    @property
    def loaded(self) -> bool:
        return self.loading.done() and not self.loading.cancelled() and self.loading.result().error is None


class Holding:
    """`async with`: the model stays loaded in the block."""

    __slots__ = ("_state",)

    def __init__(self, state: _State) -> None:
        self._state = state

    async def __aenter__(self) -> None:
        state = self._state
        state.users += 1
        try:
            if not state.loading.done():
                await asyncio.shield(state.loading)
            if error := state.loading.result().error:
                raise Unavailable(f"The model {state.model.name} cannot be loaded: {error}")
        except BaseException:
            self._leave()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self._state.users -= 1
        self._state.used = time.monotonic()


class ModelPool:
    """Loads and unloads models on one supervisor; belongs to its event loop.

    `limit` bounds the models in memory by the size of their weight files in bytes (0: no bound). It gives way where
    models in use at the same time are larger than that: a request waits for a load, never for another request.
    """

    def __init__(self, engine: Supervisor, limit: int = 0) -> None:
        self.engine = engine
        self.limit = limit
        self._states: dict[str, _State] = {}

    @property
    def bytes(self) -> int:
        """Size of the models that are loaded or being loaded."""
        return sum(state.model.bytes for state in self._states.values())

    def holding(self, model: ServedModel) -> Holding:
        """Keeps a model loaded while the block runs; loads it first where needed. Raises Unavailable where it cannot
        be."""
        return Holding(self._states.get(model.key) or self._begin(model))

    async def load(self, model: ServedModel) -> ModelLoaded:
        """Loads a model where it is not loaded; the answer's `error` says why it cannot be."""
        state = self._states.get(model.key) or self._begin(model)
        return await asyncio.shield(state.loading)

    async def preload(self, models: Iterable[ServedModel]) -> dict[str, str]:
        """Loads as many models as the limit allows, in order, the first in any case. Returns errors by model name."""
        chosen: list[ServedModel] = []
        for model in models:
            if (
                not chosen
                or not self.limit
                or self.bytes + sum(one.bytes for one in chosen) + model.bytes <= self.limit
            ):
                chosen.append(model)
        answers = await asyncio.gather(*(self.load(model) for model in chosen))
        return {model.name: answer.error for model, answer in zip(chosen, answers, strict=True) if answer.error}

    async def unload(self, key: str) -> None:
        """Unloads a model that is no longer served."""
        if self._states.pop(key, None) is not None:
            await self.engine.unload(key)

    def _begin(self, model: ServedModel) -> _State:
        state = self._states[model.key] = _State(model, asyncio.ensure_future(self._load(model)), used=time.monotonic())
        return state

    async def _load(self, model: ServedModel) -> ModelLoaded:
        await self._make_room()
        answer = await self.engine.load(model.key, model.folder)
        if answer.error:
            log.error("model %s cannot be loaded: %s", model.name, answer.error)
            self._states.pop(model.key, None)  # the next request tries again
        else:
            log.info("model loaded", extra={"model": model.key, "seconds": round(answer.seconds, 3)})
        return answer

    async def _make_room(self) -> None:
        while self.limit and self.bytes > self.limit:
            idle = [state for state in self._states.values() if state.loaded and state.users == 0]
            if not idle:
                return
            oldest = min(idle, key=lambda state: state.used)
            log.info("model unloaded to make room", extra={"model": oldest.model.key})
            await self.unload(oldest.model.key)

"""The models of one of several API processes, which serves what the leader serves."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from server.config import Settings
from server.engine.client.engine_client import EngineClient
from server.engine.client.remote_pool import PoolLink, PoolState
from server.errors import SettingsError
from server.models.discovery import find_served
from server.models.hot_reload import ServedModels
from server.models.pulls import ModelPulls, Pull
from server.translation.catalog import FailedModel, ModelCatalog
from server.translation.translator import Translator


class FollowedModels(ServedModels):
    """Serves the models of the leader's state."""

    def __init__(
        self, settings: Settings, engine: EngineClient, translator: Translator, link: PoolLink
    ) -> None:
        super().__init__(settings, engine, translator, {})
        self._link = link
        self._served: tuple[object, ...] | None = None
        self._ready = asyncio.Event()
        self._releasing: asyncio.Task[None] | None = None
        link.follow.append(self.follow)

    @property
    def errors(self) -> dict[str, str]:
        return self._link.state.errors

    async def load(self) -> None:
        """Waits until the leader has loaded the models."""
        await asyncio.to_thread(self._translator.detector.load)
        await self._ready.wait()

    async def watch(self) -> None:
        """Does nothing: the leader tries models again."""

    async def reload(self, names: Collection[str] | None = None) -> dict[str, Any]:
        """Lets the leader reload; returns when all processes serve the models."""
        answer: dict[str, Any] = await self._link.call("reload")
        return answer

    async def follow(self, state: PoolState) -> None:
        """Serves the models of a state. Returns when no request uses those before."""
        async with self._reloading:
            if self._served != (state.models, state.failed):
                await self._adopt(state)
        if state.loaded:
            self._ready.set()
        if self._releasing is not None:
            await asyncio.shield(self._releasing)

    async def _adopt(self, state: PoolState) -> None:
        old = self.catalog
        known = {model.key: model for model in old.models} | {
            failed.model.key: failed.model for failed in old.failed
        }
        if not {*state.models, *(key for key, _, _ in state.failed)} <= known.keys():
            try:
                served, _ = await asyncio.to_thread(find_served, self._settings)
            except SettingsError:  # the folders have changed since; the leader will say more
                served = []
            known = {model.key: model for model in served} | known
        for key in state.models:
            if self._engine.failed(key):
                self._engine.forget(key)
        models = [known[key] for key in state.models if key in known]
        failed = [
            FailedModel(known[key], error, at) for key, error, at in state.failed if key in known
        ]
        catalog = ModelCatalog(models, old.prefer, old.check_pending, failed)
        await self._detect(catalog, old)
        self._translator.catalog, self._served = catalog, (state.models, state.failed)
        self._releasing = asyncio.create_task(self._release(old, self._releasing))

    async def _release(self, old: ModelCatalog, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        await self._translator.released(old)
        for model in old.models:
            if self.catalog.model(model.key) is None:
                self._engine.forget(model.key)


class FollowedPulls(ModelPulls):
    """Asks the leader for downloads."""

    def __init__(self, settings: Settings, models: ServedModels, link: PoolLink) -> None:
        super().__init__(settings, models)
        self._link = link
        self._asking: set[asyncio.Task[Pull]] = set()
        link.follow.append(self._follow)

    async def _follow(self, state: PoolState) -> None:
        self.pulls = state.pulls

    def start(self) -> None:
        """Requests nothing: the leader downloads what is missing."""
        self._loop = asyncio.get_running_loop()

    def request(self, name: str) -> Pull:
        task = asyncio.create_task(self.add(name))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return Pull(name)

    async def add(self, name: str) -> Pull:
        pull: Pull = await self._link.call("pull", name)
        return pull

    async def delete(self, name: str) -> None:
        await self._link.call("delete", name)

"""Which models the workers should have, and how far they are. Survives every worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from server.engine.client.worker_handle import Device
from server.engine.ipc.messages import ModelLoaded

_FATAL = 4
"""Strikes after which a model that kills workers while it loads is not tried again."""


@dataclass(slots=True, eq=False)
class Model:
    """A wanted model. `version` changes with every load; `previous` is (folder, version) of the one that serves until
    the new one is loaded, and goes on to serve if it cannot be. `outcome` is what `load` waits for."""

    name: str
    folder: str
    version: int
    outcome: asyncio.Future[ModelLoaded]
    previous: tuple[str, int] | None = None
    error: str | None = None
    strikes: int = 0
    leaving: bool = False

    @property
    def settled(self) -> bool:
        """It was loaded once: a worker that does not have it is behind."""
        return self.outcome.done() and self.error is None


class Catalogue:
    """The wanted models by name."""

    def __init__(self) -> None:
        self._models: dict[str, Model] = {}
        self._versions = count(1)

    def __iter__(self) -> Iterator[Model]:
        return iter(list(self._models.values()))

    def get(self, name: str) -> Model | None:
        return self._models.get(name)

    def forget(self, model: Model) -> bool:
        """`model` is not wanted any more; False if another load of its name took its place meanwhile."""
        _resolve(model, _refusal(model.name, "The model was unloaded."))
        if self._models.get(model.name) is not model:
            return False
        del self._models[model.name]
        return True

    def want(self, name: str, folder: str) -> Model:
        """The model `name` is to be loaded from `folder`; a load of this name that is still under way gives way."""
        old = self._models.get(name)
        model = Model(name, folder, next(self._versions), asyncio.get_running_loop().create_future())
        if old is not None:
            model.previous = old.previous
            if not old.outcome.done():
                old.outcome.set_result(_refusal(name, "A newer load of this model took its place."))
            elif old.error is None:
                model.previous = (old.folder, old.version)
        self._models[name] = model
        return model

    def loaded(self, answer: ModelLoaded, version: int, devices: Iterable[Device]) -> None:
        """A device loaded or refused `version`. The load has succeeded when all `devices` that are up have it."""
        model = self._models.get(answer.model)
        if model is None or model.version != version:
            return
        if answer.error is not None:
            self._refuse(model, answer)
        elif all(device.loaded.get(model.name) == version for device in devices):
            model.previous, model.strikes = None, 0
            _resolve(model, answer)

    def died_loading(self, name: str, version: int, strikes: int) -> None:
        """A worker died while it loaded `version`."""
        model = self._models.get(name)
        if model is not None and model.version == version:
            model.strikes += strikes
            if model.strikes >= _FATAL:
                self._refuse(model, _refusal(name, "The model worker died while it loaded this model."))

    def give_up(self, sentence: str) -> None:
        """Nobody shall wait for a load any longer; a worker that comes up after all still loads it."""
        for model in self._models.values():
            _resolve(model, _refusal(model.name, sentence))

    def _refuse(self, model: Model, answer: ModelLoaded) -> None:
        if model.previous is None:
            model.error = answer.error
        else:
            (model.folder, model.version), model.previous, model.strikes = model.previous, None, 0
        _resolve(model, answer)


def _refusal(name: str, error: str) -> ModelLoaded:
    return ModelLoaded(name, 0, 0, 0.0, error)


def _resolve(model: Model, answer: ModelLoaded) -> None:
    if not model.outcome.done():
        model.outcome.set_result(answer)

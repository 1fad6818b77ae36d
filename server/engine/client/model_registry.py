"""The models that every worker should have, and the state of their loads. It outlives the workers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from server.engine.client.worker_handle import WorkerHandle
from server.engine.ipc.messages import ModelLoaded

_MAX_LOAD_FAILURES = 4
"""Weighted worker exits during its load after which a model is not loaded again."""


@dataclass(slots=True, eq=False)
class RegisteredModel:
    """A model that workers should load. `version` changes with every load. `previous` is (folder, version) of the model
    that is served until the new one is loaded, and afterwards if that fails. `outcome` is what callers of `load`
    await."""

    name: str
    folder: str
    version: int
    outcome: asyncio.Future[ModelLoaded]
    previous: tuple[str, int] | None = None
    error: str | None = None
    load_failures: int = 0
    unloading: bool = False

    @property
    def settled(self) -> bool:
        """Whether it was loaded once, so that every worker should have it."""
        return self.outcome.done() and self.error is None


class ModelRegistry:
    """Registered models by name."""

    def __init__(self) -> None:
        self._models: dict[str, RegisteredModel] = {}
        self._versions = count(1)

    def __iter__(self) -> Iterator[RegisteredModel]:
        return iter(list(self._models.values()))

    def get(self, name: str) -> RegisteredModel | None:
        return self._models.get(name)

    def register(self, name: str, folder: str) -> RegisteredModel:
        """Adds or replaces the model `name`; an unfinished load of the same name ends with an error."""
        old = self._models.get(name)
        model = RegisteredModel(name, folder, next(self._versions), asyncio.get_running_loop().create_future())
        if old is not None:
            model.previous = old.previous
            if not old.outcome.done():
                old.outcome.set_result(_failed(name, "A newer load of this model took its place."))
            elif old.error is None:
                model.previous = (old.folder, old.version)
        self._models[name] = model
        return model

    def remove(self, model: RegisteredModel) -> bool:
        """Removes a model; returns False where it was replaced by another load of its name in the meantime."""
        _resolve(model, _failed(model.name, "The model was unloaded."))
        if self._models.get(model.name) is not model:
            return False
        del self._models[model.name]
        return True

    def record_load(self, answer: ModelLoaded, version: int, workers: Iterable[WorkerHandle]) -> None:
        """A worker loaded or refused `version`. The load has succeeded when all `workers` that are ready have it."""
        model = self._models.get(answer.model)
        if model is None or model.version != version:
            return
        if answer.error is not None:
            self._fail(model, answer)
        elif all(worker.loaded.get(model.name) == version for worker in workers):
            model.previous, model.load_failures = None, 0
            _resolve(model, answer)

    def record_exit(self, name: str, version: int, weight: int) -> None:
        """A worker ended while it loaded `version`; `weight` is larger for a crash than for an external kill."""
        model = self._models.get(name)
        if model is not None and model.version == version:
            model.load_failures += weight
            if model.load_failures >= _MAX_LOAD_FAILURES:
                self._fail(model, _failed(name, "The model worker died while it loaded this model."))

    def fail_unfinished(self, sentence: str) -> None:
        """Ends all unfinished loads with an error; a worker that starts later loads the models nevertheless."""
        for model in self._models.values():
            _resolve(model, _failed(model.name, sentence))

    def _fail(self, model: RegisteredModel, answer: ModelLoaded) -> None:
        if model.previous is None:
            model.error = answer.error
        else:
            (model.folder, model.version), model.previous, model.load_failures = model.previous, None, 0
        _resolve(model, answer)


def _failed(name: str, error: str) -> ModelLoaded:
    return ModelLoaded(name, error=error)


def _resolve(model: RegisteredModel, answer: ModelLoaded) -> None:
    if not model.outcome.done():
        model.outcome.set_result(answer)

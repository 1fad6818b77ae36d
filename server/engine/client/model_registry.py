"""The models that every worker should have, and the state of their loads. It outlives the workers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from server.engine.client.worker_supervisor import WorkerSupervisor
from server.engine.ipc.messages import ModelLoaded

_MAX_LOAD_FAILURES = 3
"""Ends of workers that were loading a model, after which it is not loaded again."""


@dataclass(slots=True, eq=False)
class RegisteredModel:
    """A model that workers should load. `outcome` is what callers of `load` await."""

    name: str
    folder: str
    outcome: asyncio.Future[ModelLoaded] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    error: str | None = None
    load_failures: int = 0
    unloading: bool = False

    @property
    def settled(self) -> bool:
        """Whether it was loaded once, so that every worker should have it."""
        return self.outcome.done() and self.error is None

    def resolve(self, error: str | None = None, seconds: float = 0.0) -> None:
        """Answers the callers of `load`, if they wait."""
        if not self.outcome.done():
            self.outcome.set_result(ModelLoaded(self.name, seconds, error))

    def fail(self, error: str) -> None:
        """Ends the load with an error: no worker tries it again."""
        self.error = error
        self.resolve(error)


class ModelRegistry:
    """Registered models by name. A name stands for one content of a folder."""

    def __init__(self) -> None:
        self._models: dict[str, RegisteredModel] = {}

    def __iter__(self) -> Iterator[RegisteredModel]:
        return iter(list(self._models.values()))

    def get(self, name: str) -> RegisteredModel | None:
        return self._models.get(name)

    def register(self, name: str, folder: str) -> RegisteredModel:
        """Returns the model `name`, a new one unless it is loaded or being loaded. If it is being unloaded, it stays."""
        model = self._models.get(name)
        if model is None or model.error is not None:
            model = self._models[name] = RegisteredModel(name, folder)
        model.unloading = False
        return model

    def remove(self, model: RegisteredModel) -> None:
        """Removes a model and ends its load."""
        model.resolve("The model was unloaded.")
        del self._models[model.name]

    def record_load(self, answer: ModelLoaded, workers: Iterable[WorkerSupervisor]) -> None:
        """A worker loaded or refused a model. The load has succeeded when all `workers` have it."""
        model = self._models.get(answer.model)
        if model is None:
            return
        if answer.error is not None:
            model.fail(answer.error)
        elif all(model.name in worker.loaded for worker in workers):
            model.load_failures = 0
            model.resolve(seconds=answer.seconds)

    def record_exit(self, name: str) -> None:
        """A worker ended while it loaded a model."""
        model = self._models.get(name)
        if model is not None:
            model.load_failures += 1
            if model.load_failures >= _MAX_LOAD_FAILURES:
                model.fail("The model worker died while it loaded this model.")

    def fail_unfinished(self, sentence: str) -> None:
        """Ends all unfinished loads with an error; a worker that starts later loads the models nevertheless."""
        for model in self._models.values():
            model.resolve(sentence)

"""Adds, replaces and removes models while the server runs, and retries those that failed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.config import Settings
from server.engine.client.engine_client import EngineClient
from server.engine.client.model_pool import EngineModel
from server.errors import SettingsError
from server.kept import forget
from server.models.discovery import find_served
from server.text.language_id import LanguageDetector
from server.translation.catalog import FailedModel, ModelCatalog, ServedModel
from server.translation.translator import Translator

log = logging.getLogger(__name__)
PAUSES = (10, 30, 120, 600, 3600)
"""Seconds before each retry of a model that cannot be used; the last one repeats."""
POLL_SECONDS = 5
Stamp = frozenset[tuple[str, int, int]]


@dataclass(slots=True)
class _Failure:
    """A folder that cannot be used. `model` is None where even reading it failed."""

    error: str
    folder: Path
    model: ServedModel | None
    tries: int
    retry_at: float
    stamp: Stamp


class ServedModels:
    """The models of one translator. `errors` are those of unreadable folders, by name.

    A model that cannot be loaded leaves the catalog, so that others translate its pairs. It is
    retried when its folder changes or after PAUSES, never by a request.
    """

    def __init__(
        self,
        settings: Settings,
        engine: EngineClient,
        translator: Translator,
        errors: dict[str, str],
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._translator = translator
        self._reloading = asyncio.Lock()
        self._failures: dict[str, _Failure] = {}
        """By the name of the folder."""
        for name, error in errors.items():
            self._note(name, error)
        self._start_error = ""
        self.released: Callable[[ModelCatalog], Awaitable[None]] = translator.released
        """Waits until no request uses a replaced catalog."""
        engine.workers.on_failed = self._failed

    @property
    def catalog(self) -> ModelCatalog:
        """The models that are served now."""
        return self._translator.catalog

    @property
    def errors(self) -> dict[str, str]:
        """The reason for each folder or model that cannot be used; "start" names all of them."""
        start = {"start": self._start_error} if self._start_error else {}
        return start | {
            f.model.name if f.model else name: f.error for name, f in self._failures.items()
        }

    async def load(self) -> None:
        """Loads the models of the catalog and the language detector. A failure is one of
        `errors`."""
        try:
            await asyncio.to_thread(self._translator.detector.load)
            await self._engine.preload(self.catalog.models)
        except Exception as error:
            log.exception("the models could not be loaded")
            self._start_error = f"The models could not be loaded: {type(error).__name__}: {error}"
            raise

    async def watch(self) -> None:
        """Tries models that cannot be used again, without end."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self.retry()

    async def retry(self) -> None:
        """Retries the models whose pause is over or whose folder has changed."""
        now = time.monotonic()
        due = [
            name
            for name, f in self._failures.items()
            if f.retry_at <= now or f.stamp != _stamp(f.folder)
        ]
        if not due:
            return
        try:
            await self.reload(due)
        except SettingsError as error:  # no folder can be used: what is served goes on
            for name in due:
                self._note(name, str(error))

    async def reload(self, names: Collection[str] | None = None) -> dict[str, Any]:
        """Reads the folders of models again, or only those with `names`, and serves what is there.

        Requests in progress finish with their models. A model that cannot be loaded leaves its
        predecessor in service. Returns the names of models that were added, replaced, removed or
        failed, and the reasons as `errors`. Raises SettingsError where no folder can be used;
        nothing changes then.
        """
        async with self._reloading:
            models, errors = await asyncio.to_thread(find_served, self._settings)
            old = self.catalog
            before = {model.name: model for model in old.models}
            if names is None:
                present = {model.folder.name for model in models}
                self._failures = {name: f for name, f in self._failures.items() if name in present}
            else:
                models = [*old.models, *(model for model in models if model.folder.name in names)]
                errors = {name: error for name, error in errors.items() if name in names}
                for name in set(names).difference(errors, (model.folder.name for model in models)):
                    self._note(name, self._failures[name].error)  # the folder is gone
            for name, error in errors.items():
                self._note(name, error)
            after = await self._load_changed(models, before, errors)
            self._replace(after.values())
            catalog = self.catalog
            await self._detect(catalog, old)
            await self.released(old)
            for model in old.models:
                if catalog.model(model.key) is None:
                    await self._engine.unload(model.key)
            forget()
            catalog.check_order(set(after) - set(before))
            return {
                "added": sorted(set(after) - set(before)),
                "replaced": sorted(
                    name for name in set(after) & set(before) if after[name].key != before[name].key
                ),
                "removed": sorted(set(before) - set(after)),
                "failed": sorted(errors),
                "errors": errors,
            }

    async def _load_changed(
        self, models: list[ServedModel], before: dict[str, ServedModel], errors: dict[str, str]
    ) -> dict[str, ServedModel]:
        """Loads new and changed models and returns those to serve, by name. Adds failures to
        `errors`; a model whose folder is in `errors` stays."""
        after = {model.name: model for model in before.values() if model.folder.name in errors}
        for model in models:
            current = before.get(model.name)
            if current is not None and current.key == model.key:
                after[model.name] = current
            elif error := (await self._engine.load(model)).error:
                errors[model.name] = error
                self._note(model.folder.name, error, model)
                if current is not None:
                    after[model.name] = current
            else:
                after[model.name] = model
                self._failures.pop(model.folder.name, None)
        return after

    async def _detect(self, catalog: ModelCatalog, old: ModelCatalog) -> None:
        """Replaces the language detector where a catalog has other languages than the `old` one."""
        if catalog.known_sources != old.known_sources:
            detector = LanguageDetector(catalog.known_sources)
            await asyncio.to_thread(detector.load)
            self._translator.detector = detector

    def _failed(self, model: EngineModel, error: str) -> None:
        if (served := self.catalog.model(model.key)) is not None:
            self._note(served.folder.name, error, served)
            self._replace(other for other in self.catalog.models if other is not served)

    def _replace(self, models: Iterable[ServedModel]) -> None:
        """Serves these models from now on, except those that could not be loaded meanwhile."""
        old = self.catalog
        dead = {f.model.key for f in self._failures.values() if f.model is not None}
        models = [model for model in models if model.key not in dead]
        names = {model.name for model in models}
        failed = [
            FailedModel(f.model, f.error, f.retry_at)
            for f in self._failures.values()
            if f.model is not None and f.model.name not in names
        ]
        self._translator.catalog = ModelCatalog(models, old.prefer, old.check_pending, failed)

    def _note(self, name: str, error: str, model: ServedModel | None = None) -> None:
        """Notes a failure. The log says it once for each reason."""
        known = self._failures.get(name)
        if known is None or known.error != error:
            log.error("model %s cannot be used: %s", model.name if model else name, error)
        roots = (self._settings.pulled, self._settings.weights)
        folder = (
            model.folder
            if model
            else next((root / name for root in roots if (root / name).is_dir()), roots[-1])
        )
        tries = known.tries + 1 if known else 0
        pause = PAUSES[min(tries, len(PAUSES) - 1)]
        model = model or (known.model if known else None)
        self._failures[name] = _Failure(
            error, folder, model, tries, time.monotonic() + pause, _stamp(folder)
        )


def _stamp(folder: Path) -> Stamp:
    """Returns names, sizes and times of the files of a folder; nothing if it does not exist."""
    try:
        files = [(file.name, file.stat()) for file in folder.iterdir()]
    except OSError:
        return frozenset()
    return frozenset((name, stat.st_size, stat.st_mtime_ns) for name, stat in files)

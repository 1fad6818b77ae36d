"""Hot reload: adds, replaces and removes models while the server runs."""

from __future__ import annotations

import asyncio
from typing import Any

from server.config import Settings
from server.engine.client.engine_client import EngineClient
from server.text.language_id import LanguageDetector
from server.translation.catalog import ModelCatalog, ServedModel
from server.translation.model_discovery import find_served
from server.translation.translator import Translator


class ServedModels:
    """The models of one translator. `errors` maps the names of unusable models to a sentence with the reason."""

    def __init__(
        self, settings: Settings, engine: EngineClient, translator: Translator, errors: dict[str, str]
    ) -> None:
        self.errors = errors
        self._settings = settings
        self._engine = engine
        self._translator = translator
        self._reloading = asyncio.Lock()

    @property
    def catalog(self) -> ModelCatalog:
        """The models that are served now."""
        return self._translator.catalog

    async def load(self, *, detector: bool = True) -> None:
        """Loads the models of the catalog into the workers, and the language detector, which without `detector` the first
        detection loads."""
        async with asyncio.TaskGroup() as group:
            if detector:
                group.create_task(asyncio.to_thread(self._translator.detector.load))
            errors = await self._engine.preload(self._translator.catalog.models)
        self.errors |= errors

    async def reload(self) -> dict[str, Any]:
        """Reads the folders of models again and serves the models that are there now.

        Requests in progress finish with the models they started with. A model that cannot be loaded leaves its
        predecessor in service. Returns the names of the models that were added, replaced, removed or failed, and the
        reasons of the failures as `errors`. Raises SettingsError where no folder can be used; nothing changes then.
        """
        async with self._reloading:
            models, errors = await asyncio.to_thread(find_served, self._settings)
            old = self._translator.catalog
            before = {model.name: model for model in old.models}
            after = await self._load_changed(models, before, errors)
            catalog = ModelCatalog(after.values(), old.prefer, old.check_pending)
            if catalog.sources != old.sources:
                detector = LanguageDetector(catalog.sources)
                await asyncio.to_thread(detector.load)
                self._translator.detector = detector
            self._translator.catalog = catalog
            self.errors = errors
            await self._translator.released(old)
            for model in old.models:
                if catalog.model(model.key) is None:
                    await self._engine.unload(model.key)
            catalog.check_order(set(after) - set(before))
            return {
                "added": sorted(set(after) - set(before)),
                "replaced": sorted(name for name in set(after) & set(before) if after[name].key != before[name].key),
                "removed": sorted(set(before) - set(after)),
                "failed": sorted(errors),
                "errors": errors,
            }

    async def _load_changed(
        self, models: list[ServedModel], before: dict[str, ServedModel], errors: dict[str, str]
    ) -> dict[str, ServedModel]:
        """Loads new and changed models and returns the models to serve, by name. Adds failures to `errors`. A model
        whose folder cannot be used now, by `errors`, stays."""
        after = {model.name: model for model in before.values() if model.folder.name in errors}
        for model in models:
            current = before.get(model.name)
            if current is not None and current.key == model.key:
                after[model.name] = current
            elif error := (await self._engine.load(model)).error:
                errors[model.name] = error
                if current is not None:
                    after[model.name] = current
            else:
                after[model.name] = model
        return after

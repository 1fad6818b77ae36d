"""One server's parts, put together once: settings, workers, catalog, translator, history, metrics. Knows no HTTP."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from server.access.admission import Admission
from server.access.authentication import Authenticator
from server.access.rate_limits import RateLimiter
from server.config import Settings
from server.documents.jobs import FileJobs
from server.documents.service import DocumentTranslator
from server.documents.store import FileStore
from server.engine.client.engine_client import ALIGNMENTS_AT_ONCE, EngineClient
from server.engine.client.supervisor import Supervisor, WorkerOptions
from server.history.open_history import open_history
from server.history.suggestions import Suggestions
from server.inspection.inspector import Inspector
from server.observability.metrics import Metrics, StateCollector
from server.text.language_id import LanguageDetector
from server.translation.catalog import ModelCatalog, ServedModel
from server.translation.model_discovery import find_models
from server.translation.translator import Translator
from server.version import server_version

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether translations are served now; `state` is "starting", "ready", "draining" or "failed"."""

    ready: bool
    state: str


class Services:
    """Everything behind the routes. `start` and `stop` belong to the event loop that serves.

    `engine` and `catalog` are given in tests; otherwise they follow from the settings. Raises SettingsError where the
    weights folder holds no model that can be used.
    """

    def __init__(self, settings: Settings, engine: Supervisor | None = None, catalog: ModelCatalog | None = None) -> None:
        self.settings = settings
        self.metrics = Metrics(server_version())
        self.authenticator = Authenticator(settings)
        self.rate_limiter = RateLimiter(settings)
        self.model_errors: dict[str, str] = {}
        if catalog is None:
            models, self.model_errors = find_models(settings.weights)
            catalog = ModelCatalog(models)
        supervisor = engine or Supervisor(worker_options(settings), self.metrics.record_step)
        self.engine = EngineClient(supervisor, self.metrics, settings.model_bytes)
        self.history = open_history(settings)
        self.translator = Translator(
            self.engine,
            catalog,
            LanguageDetector(catalog.sources),
            Admission(settings.queue_tokens, settings.queue_seconds),
            self.history,
        )
        store = FileStore(settings.file_keep_seconds, settings.file_keep_bytes)
        self.documents = DocumentTranslator(self.translator, store, settings.file_characters, settings.file_jobs)
        self.file_jobs = FileJobs(16 * settings.file_jobs, settings.file_keep_seconds + settings.file_timeout_seconds)
        self.suggestions = Suggestions(settings.data) if settings.suggestions and settings.data else None
        self.inspector = Inspector(self.translator, Admission(settings.attention_jobs), settings.attention_tokens)
        self.draining = False
        self._loading: asyncio.Task[None] | None = None
        self._reloading = asyncio.Lock()
        self.metrics.register(StateCollector(self.engine.status, self._counters))

    async def start(self) -> None:
        """Starts the workers and loads the models behind everybody's back: HTTP answers at once, `readiness`
        follows."""
        await self.engine.start()
        self._loading = asyncio.create_task(self._load())

    async def stop(self) -> None:
        """Ends the workers after what they accepted, within the grace time, and closes the history."""
        self.draining = True
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        await self.engine.stop(self.settings.grace_seconds)
        self.file_jobs.close()
        self.documents.store.close()
        self.rate_limiter.close()
        if self.history is not None:
            await self.history.close()

    def readiness(self) -> Readiness:
        """Looks at the workers as they are now."""
        if self.draining:
            return Readiness(False, "draining")
        loaded = self._loading is not None and self._loading.done()
        status = self.engine.status()
        if loaded and status.ready and status.models:
            return Readiness(True, "ready")
        return Readiness(False, "failed" if loaded and not status.models else "starting")

    async def loaded(self) -> None:
        """Waits until every model is loaded or has failed to load."""
        if self._loading is not None:
            await asyncio.shield(self._loading)

    async def reload(self) -> dict[str, list[str]]:
        """Looks at the weights folder again and serves what is there now. Requests under way end on the models they
        began with; a model that cannot be loaded changes nothing. Returns names: added, replaced, removed, failed.

        Raises SettingsError where no model would be left.
        """
        async with self._reloading:
            models, errors = await asyncio.to_thread(find_models, self.settings.weights)
            old = self.translator.catalog
            before = {model.name: model for model in old.models}
            chosen: dict[str, ServedModel] = {}
            for model in models:
                known = before.get(model.name)
                if known is not None and known.key == model.key:
                    chosen[model.name] = known
                elif error := (await self.engine.load(model)).error:
                    errors[model.name] = error
                    if known is not None:
                        chosen[model.name] = known
                else:
                    chosen[model.name] = model
            catalog = ModelCatalog(chosen.values())
            if catalog.sources != old.sources:
                detector = LanguageDetector(catalog.sources)
                await asyncio.to_thread(detector.load)
                self.translator.detector = detector
            self.translator.catalog = catalog
            self.model_errors = errors
            await self.translator.released(old)
            for model in old.models:
                if catalog.model(model.key) is None:
                    await self.engine.unload(model.key)
            return changes(before, chosen, errors)

    async def _load(self) -> None:
        _, errors = await asyncio.gather(
            asyncio.to_thread(self.translator.detector.load), self.engine.preload(self.translator.catalog.models)
        )
        self.model_errors |= errors

    def _counters(self) -> dict[str, int]:
        admission, history = self.translator.admission, self.history
        return {
            "queue_tokens": admission.accepted,
            "queue_requests": admission.requests,
            "requests_shared_total": self.engine.shared,
            "history_hits_total": history.hits if history else 0,
            "history_misses_total": history.misses if history else 0,
            "history_errors_total": history.errors if history else 0,
        }


def changes(
    before: dict[str, ServedModel], after: dict[str, ServedModel], errors: dict[str, str]
) -> dict[str, list[str]]:
    """What a reload changed, as sorted names."""
    return {
        "added": sorted(set(after) - set(before)),
        "replaced": sorted(name for name in set(after) & set(before) if after[name].key != before[name].key),
        "removed": sorted(set(before) - set(after)),
        "failed": sorted(errors),
    }


def worker_options(settings: Settings) -> WorkerOptions:
    """The settings that the worker processes need."""
    return WorkerOptions(
        device=settings.device,
        dtype=settings.dtype,
        isa=settings.isa,
        threads=settings.threads,
        slots=settings.slots,
        max_batch_tokens=settings.prefill_tokens,
        max_attention_jobs=settings.attention_jobs + ALIGNMENTS_AT_ONCE,
    )

"""One server's parts, put together once: settings, workers, catalog, translator, history, metrics. Knows no HTTP."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from server.access import Access
from server.admission import Admission
from server.catalog import Catalog
from server.config import Settings
from server.errors import SettingsError
from server.history import History
from server.history_store import StoredHistory
from server.inspection import Inspector
from server.languages import Detector
from server.loading import find_models
from server.metrics import Metrics, StateCollector
from server.translator import Translator
from server.worker.supervisor import Supervisor, WorkerOptions

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

    def __init__(self, settings: Settings, engine: Supervisor | None = None, catalog: Catalog | None = None) -> None:
        self.settings = settings
        self.metrics = Metrics(server_version())
        self.access = Access(settings)
        self.model_errors: dict[str, str] = {}
        if catalog is None:
            models, self.model_errors = find_models(settings.weights)
            catalog = Catalog(models)
        self.engine = engine or Supervisor(worker_options(settings), self.metrics.step)
        self.history = make_history(settings)
        self.translator = Translator(
            self.engine,
            catalog,
            Detector(catalog.sources),
            Admission(settings.queue_tokens),
            self.history,
            self.metrics,
        )
        self.inspector = Inspector(self.translator, Admission(settings.attention_jobs), settings.attention_tokens)
        self.draining = False
        self._loading: asyncio.Task[None] | None = None
        self.metrics.watch(StateCollector(self.engine.status, self._counters))

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
        if self.history is not None:
            await self.history.close()

    def readiness(self) -> Readiness:
        """Looks at the workers as they are now."""
        if self.draining:
            return Readiness(False, "draining")
        if self.engine.status().ready:
            return Readiness(True, "ready")
        loaded = self._loading is not None and self._loading.done()
        return Readiness(False, "failed" if loaded and not self.engine.status().models else "starting")

    async def loaded(self) -> None:
        """Waits until every model is loaded or has failed to load."""
        if self._loading is not None:
            await asyncio.shield(self._loading)

    async def _load(self) -> None:
        await asyncio.gather(
            asyncio.to_thread(self.translator.detector.load),
            *(self._load_model(model.name) for model in self.translator.catalog.models),
        )

    async def _load_model(self, name: str) -> None:
        model = self.translator.catalog.model(name)
        if model is None:
            return
        answer = await self.engine.load(name, model.folder)
        if answer.error:
            self.model_errors[name] = answer.error
            log.error("model %s cannot be loaded: %s", name, answer.error)
        else:
            log.info("model loaded", extra={"model": name, "seconds": round(answer.seconds, 3), "bytes": answer.bytes})

    def _counters(self) -> dict[str, int]:
        admission, history = self.translator.admission, self.history
        return {
            "queue_tokens": admission.accepted,
            "queue_requests": admission.requests,
            "requests_shared_total": self.translator.flights.shared,
            "history_hits_total": history.hits if history else 0,
            "history_misses_total": history.misses if history else 0,
        }


def make_history(settings: Settings) -> History | None:
    """The history that the settings ask for, or None where it is switched off. Raises SettingsError."""
    if not settings.history:
        return None
    bounds = (settings.history_size, settings.history_bytes, settings.history_seconds)
    if settings.data is None:
        return History(*bounds)
    try:
        return StoredHistory(settings.data, *bounds)
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(
            f"--data (ATTENTIVE_DATA): the history in {str(settings.data)!r} cannot be opened: {error}."
        ) from None


def worker_options(settings: Settings) -> WorkerOptions:
    """The settings that the worker processes need."""
    return WorkerOptions(
        device=settings.device,
        dtype=settings.dtype,
        threads=settings.threads,
        slots=settings.slots,
        max_batch_tokens=settings.prefill_tokens,
        max_attention_jobs=settings.attention_jobs,
    )


def server_version() -> str:
    """Version of the installed distribution; "development" for a source tree that is not installed."""
    try:
        return version("attentive-server")
    except PackageNotFoundError:
        return "development"

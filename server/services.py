"""Constructs, starts and stops the parts of one server. Independent of HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.search.options import DecodingOptions
from server import server_version
from server.access.admission import Admission
from server.access.authentication import Authenticator
from server.access.rate_limits import RateLimiter
from server.config import Settings, comma_separated
from server.documents.jobs import FileJobs
from server.documents.service import DocumentTranslator
from server.documents.store import open_store
from server.engine.client.engine_client import EngineClient
from server.engine.client.lease import Backlog
from server.engine.client.remote_pool import LeasedBacklog, PoolLink, RemotePool
from server.engine.client.status import WorkerStatus
from server.engine.client.worker_pool import WorkerPool
from server.engine.ipc.options import WorkerOptions
from server.glossaries.glossaries import Glossaries
from server.inspection.inspector import Inspector
from server.models.discovery import find_served
from server.models.followed import FollowedModels, FollowedPulls
from server.models.hot_reload import ServedModels
from server.models.pulls import ModelPulls
from server.observability.metrics import Metrics, StateCollector
from server.store.history import History
from server.store.interface import Bounds
from server.store.keys import Keys, Usage
from server.store.open_store import open_shared
from server.store.sqlite import SQLiteStore, holds_data
from server.text.language_id import LanguageDetector
from server.translation.catalog import ModelCatalog, ServedModel
from server.translation.result_cache import ResultCache
from server.translation.translator import Translator

log = logging.getLogger(__name__)
FILES, METRICS = "files", "metrics"
"""Folders of translated files and of metrics in the folder of several processes."""


class Services:
    """The parts of one server, used by the routes and by commands. `start` and `stop` run in the
    event loop that serves.

    `workers` and `catalog` replace those of the settings in tests, `admission` replaces the queue.
    Raises SettingsError where a setting cannot be used or the weights folder holds no usable model.
    """

    def __init__(
        self,
        settings: Settings,
        workers: WorkerPool | None = None,
        catalog: ModelCatalog | None = None,
        admission: Admission | None = None,
        process: ServerProcess | None = None,
    ) -> None:
        self.settings = settings
        number, folder, link = (
            (settings.processes, process.folder, process.link) if process else (1, None, None)
        )
        self._link = link
        self.metrics = Metrics(
            server_version(), process.folder / METRICS / process.name if process else None
        )
        self.state = open_shared(settings)
        self.store = self.state or SQLiteStore(settings.data, folder, shared=process is not None)
        if self.state is not None and settings.data is not None and holds_data(settings.data):
            log.warning(
                "the API keys of the data folder are not used; `attentive keys import` copies them "
                "to Redis"
            )
        self.authenticator = Authenticator(
            settings, Keys(self.store) if self.store.permanent else None
        )
        self.rate_limiter = RateLimiter(settings, Usage(self.store), self.state or link)
        self.glossaries = Glossaries(self.store)

        errors: dict[str, str] = {}
        if catalog is None:
            models, errors = process.found if process else find_served(settings)
            catalog = ModelCatalog(models, comma_separated(settings.prefer))
            catalog.check_order({model.name for model in models})
        options = worker_options(settings, folder)
        if link is not None:
            workers = RemotePool(options, link)
            self.engine = EngineClient(workers, self.metrics)
            self.engine.logs = False  # the leader says it once
        else:
            workers = workers or WorkerPool(options, self.metrics.record_step)
            self.engine = EngineClient(
                workers, self.metrics, settings.model_bytes, settings.model_idle_seconds
            )
        backlogs = new_backlogs(settings, workers, number if link else 1)
        if link is not None:
            backlogs = {name: LeasedBacklog(name, link, share) for name, share in backlogs.items()}
            link.counters, link.in_use = self.counters, lambda: self.engine.in_use
            self.store.at_every_beat(as_task(link.report))
        kept = Bounds(settings.history_size, settings.history_bytes, settings.history_seconds)
        self.history = History(self.store, kept) if settings.history else None
        self.translator = Translator(
            self.engine,
            catalog,
            LanguageDetector(catalog.sources),
            admission or Admission(backlogs["pool"], settings.queue_seconds),
            self.history,
            self.metrics,
            ResultCache(settings, self.state, processes=number) if settings.cache_bytes else None,
        )
        if link is not None:
            self.models: ServedModels = FollowedModels(settings, self.engine, self.translator, link)
            self.pulls: ModelPulls = FollowedPulls(settings, self.models, link)
        else:
            self.models = ServedModels(settings, self.engine, self.translator, errors)
            self.pulls = ModelPulls(settings, self.models)
        catalog.check_pending = self.pulls.check

        common = folder / FILES if folder is not None and self.state is None else None
        store = open_store(settings, self.store, common, number)
        documents = Admission(
            backlogs["files"],
            caller_share=1.0,
            message="Too many documents are in progress; try again later.",
        )
        self.documents = DocumentTranslator(
            self.translator, store, documents, settings.file_characters, settings.file_jobs
        )
        seconds = settings.file_keep_seconds + settings.file_timeout_seconds
        self.file_jobs = FileJobs(self.documents, self.store, seconds)
        self.store.at_every_beat(store.prune)
        self.store.at_every_beat(self.engine.unload_idle)
        self.store.at_every_beat(self.file_jobs.beat)
        self.inspector = Inspector(self.translator, settings.attention_tokens)

        self.draining = False
        self._was_ready = False
        self._loading: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._free: float | None = None
        self._collected: tuple[WorkerStatus, dict[str, float]] | None = None
        self.metrics.registry.register(StateCollector(self._worker_status, self._all_counters))

    async def start(self) -> None:
        """Starts the workers and loads the models in the background; see `readiness`."""
        await self.store.start()
        await self.engine.workers.start()
        self._loading = asyncio.create_task(self.models.load())
        self._watching = asyncio.create_task(self.models.watch())
        self.pulls.start()

    async def loaded(self) -> None:
        """Waits until every model is loaded or has failed to load."""
        if self._loading is not None:
            await asyncio.shield(self._loading)

    async def stop(self) -> None:
        """Stops the workers after the accepted work or the grace time, and closes the stores."""
        self.draining = True
        tasks = [task for task in (self._loading, self._watching) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.pulls.stop()
        await self.file_jobs.close()  # their clients cannot fetch a result here any more
        await self.engine.workers.stop(self.settings.grace_seconds)
        await self.documents.readers.close()
        await self.inspector.encoders.close()
        await self.inspector.heads.close()
        await self.documents.store.close()
        await self.store.stop()

    @property
    def is_loaded(self) -> bool:
        return self._loading is not None and self._loading.done()

    @property
    def readiness(self) -> str:
        """Whether translations are served now: "starting", "ready", "degraded" while models of
        --models are missing, "frozen" while no worker goes on, "restarting" while no worker has the
        models that were served, "draining" or "failed". No model makes a server that was ready
        unready."""
        if self.draining:
            return "draining"
        if self._link is not None:
            return self._link.state.readiness if self.is_loaded else "starting"
        loaded, missing = self.is_loaded, bool(self.pulls.missing)
        status = self.engine.workers.status()
        if loaded and not self._was_ready and not status.models and not status.ready:
            return "failed"
        if (
            not loaded
            or not status.ready
            or (not self._was_ready and missing and self.settings.require_models)
        ):
            if any(worker.state == "frozen" for worker in status.workers):
                return "frozen"
            return "restarting" if self._was_ready else "starting"
        # from now on workers without a model are ready
        self._was_ready = self.engine.workers.rests = True
        return "degraded" if missing else "ready"

    async def measure_disk(self) -> None:
        """Measures the free share of the disk of --data, in a thread: a network disk may not
        answer."""
        self._free = None
        if self.settings.data is not None:
            with contextlib.suppress(OSError):  # the folder was removed: it has no figure
                disk = await asyncio.to_thread(shutil.disk_usage, self.settings.data)
                self._free = disk.free / disk.total

    async def collect(self) -> None:
        """Prepares a scrape: the free disk space, and the counters of all processes."""
        if self._link is None:
            await self.measure_disk()
        else:
            self._collected = await self._link.call("collect")

    def _worker_status(self) -> WorkerStatus:
        return self._collected[0] if self._collected else self.engine.workers.status()

    def _all_counters(self) -> dict[str, float]:
        return self._collected[1] if self._collected else self.counters()

    def counters(self) -> dict[str, float]:
        """Returns the current values of the metrics in
        `server.observability.metrics.DESCRIPTIONS`."""
        admission, history, cache = self.translator.admission, self.history, self.translator.cache
        state = self.state
        further: dict[str, float] = (
            {} if state is None else {"state_up": state.up, "state_errors_total": state.errors}
        )
        if self._free is not None:
            further["data_free_ratio"] = self._free
        return further | {
            "models_missing": len(self.pulls.missing),
            "models_failed": len(self.models.errors),
            "queue_device_seconds": admission.device_seconds,
            "queue_tokens": admission.accepted,
            "queue_requests": admission.requests,
            "requests_shared_total": self.engine.shared,
            "history_hits_total": history.hits if history else 0,
            "history_misses_total": history.misses if history else 0,
            "history_errors_total": history.errors if history else 0,
            "history_lost_total": history.lost if history else 0,
            "cache_hits_total": cache.hits if cache else 0,
            "cache_misses_total": cache.misses if cache else 0,
            "cache_shared_hits_total": cache.shared_hits if cache else 0,
            "cache_bytes": cache.bytes if cache else 0,
        }


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """One of several processes. Its replacement has the same `name`; all share the `folder`.
    `found` are the models and errors that were read before the start. An API process has a `link`
    to the leader."""

    name: str
    folder: Path
    found: tuple[list[ServedModel], dict[str, str]]
    link: PoolLink | None = None


def new_backlogs(settings: Settings, workers: WorkerPool, parts: int = 1) -> dict[str, Backlog]:
    """Returns the bounds of the pool's work and of the bytes of documents, divided by `parts`."""
    # those of the longest sentences
    looks = settings.attention_jobs * 2 * settings.attention_tokens / parts
    tokens = settings.queue_tokens / parts
    return {
        "pool": Backlog(tokens, looks, lambda: workers.prices, lambda: workers.up),
        "files": Backlog(settings.file_keep_bytes / parts),
    }


def as_task(function: Callable[[], None]) -> Callable[[], Coroutine[Any, Any, None]]:

    async def run() -> None:
        function()

    return run


def default_options(settings: Settings, *, rerank: bool | None = None) -> DecodingOptions:
    """Returns the decoding options of requests that choose none but `rerank`."""
    rerank = settings.rerank if rerank is None else rerank
    return DecodingOptions(beam_size=settings.beam_size, loop_guard=True, rerank=rerank)


def worker_options(settings: Settings, folder: Path | None = None) -> WorkerOptions:
    """Returns the settings of the workers, which listen in `folder` for several processes."""
    return WorkerOptions(
        device=settings.device,
        dtype=settings.dtype,
        isa=settings.isa,
        shortlist=settings.shortlist,
        threads=settings.threads,
        slots=settings.slots,
        max_batch_tokens=settings.prefill_tokens,
        sockets=str(folder) if folder else "",
    )

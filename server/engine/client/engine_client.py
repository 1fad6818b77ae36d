"""The one way from the API process to the workers: jobs and their answers. Raises the errors of `server.errors`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from model.search.options import DecodingOptions
from server.engine.client.model_handle import EngineModel
from server.engine.client.model_pool import ModelPool
from server.engine.client.status import WorkerFailure, server_error
from server.engine.client.worker_pool import WorkerPool
from server.engine.ipc.messages import Charged, Job, JobResult, Look

NOBODY = Charged()


class TranslationObserver(Protocol):
    """Receives the outcome of every counted job; of those with a target that is only scored, the failures. `seconds` is
    the time from sending to the answer, `kind` that of a WorkerFailure."""

    def translated(self, source_tokens: int, answer: JobResult, seconds: float) -> None: ...
    def failed(self, kind: str) -> None: ...
    def cancelled(self) -> None: ...


@dataclass(slots=True, eq=False)
class _InFlight:
    """A job that is computed, and how many callers wait for it."""

    future: asyncio.Future[JobResult]
    callers: int = 0


class EngineClient(ModelPool):
    """Loads models into the workers of one pool (see ModelPool), and sends jobs to them. Belongs to one event loop.

    `model_bytes` bounds the loaded models by the size of their weight files (0: no bound), `idle_seconds` the time
    that an unused one stays loaded (0: no bound).
    """

    def __init__(
        self, workers: WorkerPool, observer: TranslationObserver, model_bytes: int = 0, idle_seconds: float = 0.0
    ) -> None:
        super().__init__(workers, model_bytes, idle_seconds)
        self._observer = observer
        self._in_flight: dict[Hashable, _InFlight] = {}
        self.shared = 0
        """How many callers joined an equal job in flight."""
        self._turns = asyncio.Lock()
        """Sentences of documents go on one after the other: what is done with an answer must not delay other requests."""

    async def answer(
        self,
        model: EngineModel,
        source: Sequence[int],
        options: DecodingOptions,
        look: Look | None = None,
        *,
        charged: Charged = NOBODY,
        counted: bool = False,
        on_progress: Callable[[tuple[int, ...]], None] | None = None,
    ) -> JobResult:
        """Returns the answer to one job about a sentence of token ids: its translation, the scores of the target of the options,
        or what the `look` asks for of the pass over this target. The tokens are limited to those of the model's shortlist, as
        the options of the answer say, so that the decode can be repeated.

        An equal job that is in flight is shared: charged to the first caller, and cancelled when the last one is. Only those that
        are `counted` are reported to the observer. `on_progress` receives the tokens so far; such a job is not shared. Raises
        InvalidRequest, Overloaded, Unavailable or TranslationFailed where a worker fails, and the errors of `holding`."""
        async with self.holding(model) as loaded:
            if loaded.shortlist:
                options = options.limited_to(loaded.shortlist)
            job = Job(0, model.key, tuple(source), options, *charged, stream=on_progress is not None, look=look)
            key = (job.model, job.source, options, job.priority, look, object() if on_progress else None)
            try:
                answer = await self._share(key, partial(self._start, job, on_progress, counted))
            except WorkerFailure as failure:
                raise server_error(failure) from failure
        answer.options = options
        if job.priority:
            async with self._turns:
                await asyncio.sleep(0)
        return answer

    async def _share(self, key: Hashable, start: Callable[[], asyncio.Future[JobResult]]) -> JobResult:
        """Returns the answer to the job with this key; calls `start` where none is in flight, and forgets it when it is done."""
        item = self._in_flight.get(key)
        if item is None:
            item = self._in_flight[key] = _InFlight(start())
            item.future.add_done_callback(lambda _: self._forget(key, item))
        else:
            self.shared += 1
        item.callers += 1
        try:
            return await asyncio.shield(item.future)
        finally:
            item.callers -= 1
            if not item.callers and not item.future.done():
                self._forget(key, item)
                item.future.cancel()

    def _forget(self, key: Hashable, item: _InFlight) -> None:
        if self._in_flight.get(key) is item:  # a later job may have the same key
            del self._in_flight[key]

    def _start(
        self, job: Job, on_progress: Callable[[tuple[int, ...]], None] | None, counted: bool
    ) -> asyncio.Future[JobResult]:
        future = self.workers.submit(job, on_progress)
        if counted:
            future.add_done_callback(partial(self._report, job, time.monotonic()))
        return future

    def _report(self, job: Job, started: float, done: asyncio.Future[JobResult]) -> None:
        error = None if done.cancelled() else done.exception()  # reading it also marks it as retrieved
        if error is not None:
            self._observer.failed(error.kind if isinstance(error, WorkerFailure) else "internal")
        elif job.options.target is not None:
            return
        elif done.cancelled():
            self._observer.cancelled()
        else:
            self._observer.translated(len(job.source), done.result(), time.monotonic() - started)

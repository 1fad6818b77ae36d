"""EngineClient: sends jobs from the API process to the workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from model.search.options import DecodingOptions
from server.engine.client.model_pool import EngineModel, ModelPool
from server.engine.client.status import WorkerFailure, server_error
from server.engine.client.worker_pool import OnProgress, WorkerPool
from server.engine.ipc.messages import Charged, Job, JobResult, Look, ModelLoaded
from server.work_threads import LoopTurns

NOBODY = Charged()


class TranslationObserver(Protocol):
    """Receives the outcome of counted jobs; of those that only score a target, the failures.
    `seconds` is the time from sending to the answer, `kind` that of a WorkerFailure."""

    def translated(self, source_tokens: int, answer: JobResult, seconds: float) -> None: ...
    def failed(self, kind: str) -> None: ...
    def cancelled(self) -> None: ...


@dataclass(slots=True, eq=False)
class InFlight:
    """A job in progress: the future of its answer, the number of callers that wait for it, and the
    futures of those that `receive` it."""

    key: Hashable
    future: asyncio.Future[JobResult]
    waiting: int = 0
    waiters: list[asyncio.Future[JobResult | BaseException | None]] = field(default_factory=list)


alignment_times: ContextVar[list[tuple[float, float]] | None] = ContextVar(
    "alignment_times", default=None
)
"""Begin and end of each alignment of the present request, on time.perf_counter(); None where nobody
reads them."""


class EngineClient(ModelPool):
    """A ModelPool that also sends jobs to the workers. Belongs to one event loop."""

    def __init__(
        self,
        workers: WorkerPool,
        observer: TranslationObserver,
        model_bytes: int = 0,
        idle_seconds: float = 0.0,
    ) -> None:
        super().__init__(workers, model_bytes, idle_seconds)
        self._observer = observer
        self._in_flight: dict[Hashable, InFlight] = {}
        self.shared = 0
        """Number of callers that joined an equal job in flight."""
        self.turns = LoopTurns()
        """Of documents, whose work must not delay short requests."""

    async def answer(
        self,
        model: EngineModel,
        source: Sequence[int],
        options: DecodingOptions,
        look: Look | None = None,
        *,
        charged: Charged = NOBODY,
        counted: bool = False,
        on_progress: OnProgress | None = None,
    ) -> JobResult:
        """Returns the answer to one job about a sentence of token ids: its translation, the scores
        of the target of the options, or what the `look` asks for of the pass over this target. The
        options of the answer contain the model's shortlist, so that the decode can be repeated.

        An equal job in flight is shared: charged to the first caller, cancelled with the last one.
        Jobs that are `counted` are reported to the observer. `on_progress` receives the tokens so
        far; such a job is not shared. Raises InvalidRequest, Unavailable, ExpiredTranslation or
        TranslationFailed where a worker fails, and the errors of `holding`."""
        async with self.holding(model) as loaded:
            item = self.send(
                model,
                loaded,
                source,
                options,
                look,
                charged=charged,
                counted=counted,
                on_progress=on_progress,
            )
            times = alignment_times.get() if look is not None and look.words is not None else None
            began = time.perf_counter()
            try:
                return await self.receive(item, charged.priority)
            finally:
                if times is not None:
                    times.append((began, time.perf_counter()))

    async def receive(self, item: InFlight, priority: int) -> JobResult:
        """Returns the answer to a job of `send`, and raises as `answer`. Each caller has a future of
        its own, because several may wait for one job."""
        waiter = asyncio.get_running_loop().create_future()
        item.waiters.append(waiter)
        try:
            answer = await waiter
        finally:
            self.leave(item)
        if isinstance(answer, WorkerFailure):
            raise server_error(answer) from answer
        if not isinstance(answer, JobResult):
            raise answer or asyncio.CancelledError
        if priority:
            await self.turns.next()
        return answer

    def send(
        self,
        model: EngineModel,
        loaded: ModelLoaded,
        source: Sequence[int],
        options: DecodingOptions,
        look: Look | None = None,
        *,
        charged: Charged = NOBODY,
        counted: bool = False,
        on_progress: OnProgress | None = None,
    ) -> InFlight:
        """Sends one job as `answer` does, to a model that the caller holds. A caller that does not
        wait for the answer must `leave` it."""
        if loaded.shortlist:
            options = options.limited_to(loaded.shortlist)
        source = tuple(source)
        key = (
            model.key,
            source,
            options,
            charged.priority,
            look,
            object() if on_progress else None,
        )
        item = self._in_flight.get(key)
        if item is None:
            job = Job(
                0, model.key, source, options, *charged, stream=on_progress is not None, look=look
            )
            item = self._in_flight[key] = InFlight(key, self.workers.submit(job, on_progress))
            item.future.add_done_callback(
                partial(self._answered, item, job, counted, time.monotonic())
            )
        else:
            self.shared += 1
        item.waiting += 1
        return item

    def leave(self, item: InFlight) -> None:
        """Stops waiting for a job, and cancels it if nobody else waits and it has no answer."""
        item.waiting -= 1
        if not item.waiting and not item.future.done():
            self._forget(item)
            item.future.cancel()

    def _forget(self, item: InFlight) -> None:
        if self._in_flight.get(item.key) is item:  # a later job may have the same key
            del self._in_flight[item.key]

    def _answered(
        self,
        item: InFlight,
        job: Job,
        counted: bool,
        started: float,
        done: asyncio.Future[JobResult],
    ) -> None:
        self._forget(item)
        # reading it also marks it as retrieved
        error = None if done.cancelled() else done.exception()
        answer = None if done.cancelled() or error else done.result()
        if answer is not None:
            answer.options = job.options
        for waiter in item.waiters:
            if not waiter.done():
                waiter.set_result(answer or error)
        if not counted:
            return
        if error is not None:
            self._observer.failed(error.kind if isinstance(error, WorkerFailure) else "internal")
        elif job.options.target is not None:
            return
        elif answer is None:
            self._observer.cancelled()
        else:
            self._observer.translated(len(job.source), answer, time.monotonic() - started)

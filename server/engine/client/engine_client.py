"""The one way from the API process to the workers: translate, trace, attend, align. Raises the errors of
`server.errors`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from model.analysis.pair_alignment import WordedSentence
from model.search.options import DecodingOptions
from server.engine.client.model_pool import EngineModel, ModelPool
from server.engine.client.single_flight import SingleFlight
from server.engine.client.status import WorkerFailure, server_error
from server.engine.client.worker_pool import WorkerPool
from server.engine.ipc.messages import AttentionJob, AttentionResult, TranslateJob, TranslationResult

ALIGNMENTS_AT_ONCE = 4
"""Alignment requests that may wait in the workers at the same time, in addition to callers' attention requests."""

Head = tuple[str, int, int]
Result = TypeVar("Result")


class TranslationObserver(Protocol):
    """Receives the outcome of every sentence that was sent to a worker; of those with a target that is only scored, the
    failures. `seconds` is the time from sending to the answer, `kind` that of a WorkerFailure."""

    def translated(self, source_tokens: int, answer: TranslationResult, seconds: float) -> None: ...
    def failed(self, kind: str) -> None: ...
    def cancelled(self) -> None: ...


class EngineClient(ModelPool):
    """Loads models into the workers of one pool (see ModelPool), and sends sentences to them.

    `model_bytes` bounds the loaded models by the size of their weight files (0: no bound). Belongs to one event loop.
    Every method that computes raises InvalidRequest, Overloaded, Unavailable or TranslationFailed where a
    worker fails, and Unavailable where the model cannot be loaded.
    """

    def __init__(self, workers: WorkerPool, observer: TranslationObserver, model_bytes: int = 0) -> None:
        super().__init__(workers, model_bytes)
        self._observer = observer
        self._in_flight: SingleFlight[TranslationResult] = SingleFlight()
        self._alignments = asyncio.Semaphore(ALIGNMENTS_AT_ONCE)

    @property
    def shared(self) -> int:
        """Translations that were answered by an identical one that was already in flight."""
        return self._in_flight.shared

    async def translate(
        self,
        model: EngineModel,
        source: Sequence[int],
        options: DecodingOptions,
        *,
        priority: int = 0,
        client: str = "",
        weight: float = 1.0,
        on_progress: Callable[[tuple[int, ...]], None] | None = None,
    ) -> TranslationResult:
        """Translates one sentence of token ids; an identical one that is in flight is shared. The caller holds the model.
        `priority` is 0 for interactive requests and 1 for documents. `weight` is the factor of the client's share.
        `on_progress` receives the tokens so far, and such a sentence is not shared."""
        job = TranslateJob(
            0, model.key, tuple(source), options, priority, client, weight, stream=on_progress is not None
        )

        def start() -> asyncio.Future[TranslationResult]:
            future = self.workers.submit(job, on_progress)
            future.add_done_callback(partial(self._report, job, time.monotonic()))
            return future

        private = object() if on_progress else None
        return await _answer(self._in_flight.run((job.model, job.source, options, priority, private), start))

    async def trace(
        self, model: EngineModel, source: Sequence[int], options: DecodingOptions, *, client: str = ""
    ) -> TranslationResult:
        """Translates one sentence for inspection: it is neither shared nor reported to the observer."""
        async with self.holding(model):
            job = TranslateJob(0, model.key, tuple(source), options, client=client)
            return await _answer(self.workers.submit(job))

    async def attend(
        self,
        model: EngineModel,
        source: Sequence[int],
        target: Sequence[int],
        *,
        masked_heads: tuple[Head, ...] = (),
        vectors_of: Head | None = None,
        words: tuple[WordedSentence, WordedSentence] | None = None,
        first_token: int | None = None,
    ) -> AttentionResult:
        """Runs one teacher-forced pass over a pair. `vectors_of` also requests the queries, keys and values of a head;
        `words` also requests evidence which words of source and target belong together."""
        async with self.holding(model):
            job = AttentionJob(
                0,
                model.key,
                tuple(source),
                tuple(target),
                masked_heads,
                vectors_of=vectors_of,
                words=words,
                first_token=first_token,
            )
            return await _answer(self.workers.submit(job))

    async def align(
        self,
        model: EngineModel,
        source: Sequence[int],
        target: Sequence[int],
        words: tuple[WordedSentence, WordedSentence] | None,
        first_token: int | None = None,
    ) -> AttentionResult:
        """Runs the pass of `attend` for the translator. At most ALIGNMENTS_AT_ONCE run at the same time and further
        ones wait, so none is rejected as overload: a translation does not depend on the load."""
        async with self._alignments:
            return await self.attend(model, source, target, words=words, first_token=first_token)

    def _report(self, job: TranslateJob, started: float, done: asyncio.Future[TranslationResult]) -> None:
        error = None if done.cancelled() else done.exception()  # reading it also marks it as retrieved
        if error is not None:
            self._observer.failed(error.kind if isinstance(error, WorkerFailure) else "internal")
        elif job.options.target is not None:
            return
        elif done.cancelled():
            self._observer.cancelled()
        else:
            self._observer.translated(len(job.source), done.result(), time.monotonic() - started)


async def _answer(result: Awaitable[Result]) -> Result:
    """Awaits an answer; a WorkerFailure becomes an error of `server.errors`."""
    try:
        return await result
    except WorkerFailure as failure:
        raise server_error(failure) from failure

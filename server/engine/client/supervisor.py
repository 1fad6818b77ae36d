"""The API side of the workers: submit -> future. Starts, watches and restarts one worker process per device. No torch.

A job belongs to the supervisor from `submit` until its future resolves; a worker only borrows it. What a worker that
died had borrowed is sent again. Jobs it was working on are suspects: what is known of them stands in the docket, and who
looks guilty runs with nothing beside it, so that whichever kills a worker again is known and is not tried any more.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from model.analysis.pair_alignment import WordedSentence
from model.search.options import DecodingOptions
from server.engine.client.crash_history import Docket
from server.engine.client.model_registry import Catalogue
from server.engine.client.status import DeviceStatus, WorkerFailure, WorkerStatus
from server.engine.client.worker_handle import COMMAND, Death, Device
from server.engine.ipc.messages import (
    Answer,
    AttentionJob,
    AttentionResult,
    Cancel,
    Failed,
    FailureKind,
    ModelLoaded,
    Progress,
    StepStats,
    TranslateJob,
    TranslationResult,
)
from server.engine.ipc.options import WorkerOptions

__all__ = ["DeviceStatus", "Supervisor", "WorkerFailure", "WorkerOptions", "WorkerStatus"]

_OUTSIDE, _CRASH = 1, 2
"""Strikes for a model that was being loaded when its worker was killed from outside, and when it crashed or hung."""
_BROKEN = 5
"""A worker that failed so often in a row counts as broken: jobs do not wait for it any more."""
_DEADLINE_SLACK = 0.5
"""The worker keeps deadlines itself; the supervisor's own clock is for when no worker can."""
_TICK = 1.0
_LEAVE = 2.0
"""Seconds a worker has to leave once it has nothing to do."""
_SHUTDOWN = "The server is shutting down."
_NO_WORKER = "The model worker does not start; the server's log says why."
_POISONOUS = "The model worker failed on this text each time; it is not tried again."
_LATE = "The translation was not ready within its time limit."

_NOTHING = StepStats(0, 0, 0, 0, 0, 0.0, 0, 0, 0, 0.0, 0)

_log = logging.getLogger("attentive.worker")
_News = TypeVar("_News")


@dataclass(slots=True, eq=False)
class _Flight:
    """A job and the future that waits for it. `device` is who borrowed it; `deadline` is monotonic seconds."""

    job: TranslateJob | AttentionJob
    future: asyncio.Future[Any]
    deadline: float | None
    on_progress: Callable[[tuple[int, ...]], None] | None = None
    device: Device | None = None
    timer: asyncio.TimerHandle | None = None
    shown: int = 0


class Supervisor:
    """Owner of the worker processes; every method belongs to one event loop.

    `on_stats` is called with every StepStats (sums since the one before it; its state is that of all workers together).
    Every future that `submit` and `attend` return resolves: with an answer, or with WorkerFailure. Cancelling a future
    cancels the work. `command` starts a worker process; tests bring their own.
    """

    def __init__(
        self, options: WorkerOptions, on_stats: Callable[[StepStats], None], command: Sequence[str] = COMMAND
    ) -> None:
        self._options, self._on_stats, self._command = options, on_stats, command
        self._devices: list[Device] = []
        self._catalogue = Catalogue()
        self._flights: dict[int, _Flight] = {}
        self._backlog: dict[int, _Flight] = {}
        """Jobs that no worker can take yet, in order of arrival."""
        self._docket = Docket()
        self._ids = count(1)
        self._idle = asyncio.Event()
        self._idle.set()
        self._watch: asyncio.Task[None] | None = None
        self._closed = False

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the worker processes; returns at once, `status().ready` turns true later."""
        self._watch = asyncio.create_task(self._tick())
        self._add_device()

    async def stop(self, grace_seconds: float) -> None:
        """Let accepted jobs finish for at most `grace_seconds`, then end the workers; the rest fails as cancelled."""
        try:
            await asyncio.wait_for(self._idle.wait(), grace_seconds)
        except TimeoutError:
            _log.warning("%d jobs did not finish in the grace time", len(self._flights))
        self._closed = True
        self._catalogue.give_up(_SHUTDOWN)
        for flight in list(self._flights.values()):
            self._fail(flight, "cancelled", _SHUTDOWN)
        for kill in (False, True):
            for device in self._devices:
                device.stop(kill=kill)
            patience = time.monotonic() + (_LEAVE if not kill else _LEAVE * 5)
            while any(device.pid for device in self._devices) and time.monotonic() < patience:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        if self._watch is not None:
            self._watch.cancel()

    def _add_device(self) -> None:
        device = Device(len(self._devices), self._options, self._command, self)
        self._devices.append(device)
        device.start()

    async def _tick(self) -> None:
        """The watchdog's clock. A tick counts for two at most: after a pause of our own the workers speak first."""
        tick = min(_TICK, self._options.watchdog_seconds / 4)
        before = time.monotonic()
        while True:
            await asyncio.sleep(tick)
            now = time.monotonic()
            for device in self._devices:
                device.tick(min(now - before, 2 * tick))
            before = now

    # -- models --------------------------------------------------------------------------------------------------------

    async def load(self, model: str, folder: Path) -> ModelLoaded:
        """Load or replace a model in every worker; waits for a worker that is still starting. `error` says what is
        wrong; then the model of this name that was there before, if any, still serves."""
        entry = self._catalogue.want(model, str(folder))
        self._docket.clear()
        for device in self._devices:
            self._load_next(device)
        return await asyncio.shield(entry.outcome)

    async def unload(self, model: str) -> None:
        """Take no further jobs for this model; those accepted finish first."""
        entry = self._catalogue.get(model)
        if entry is None:
            return
        entry.leaving = True
        futures = [flight.future for flight in self._flights.values() if flight.job.model == model]
        if futures:
            await asyncio.wait(futures)
        if self._catalogue.forget(entry):
            for device in self._devices:
                if model in device.loaded:
                    device.unload(model)

    def _load_next(self, device: Device) -> None:
        """Have `device` load the next model that it lacks; one at a time."""
        if device.ready is None or device.loading or self._closed:
            return
        for entry in self._catalogue:
            versions = (device.loaded.get(entry.name), device.refused.get(entry.name))
            if entry.version not in versions and entry.error is None:
                device.load(entry.name, entry.folder, entry.version)
                return

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def submit(
        self,
        model: str,
        source: Iterable[int],
        options: DecodingOptions,
        *,
        priority: int = 0,
        client: str = "",
        timeout: float | None = None,
        on_progress: Callable[[tuple[int, ...]], None] | None = None,
    ) -> asyncio.Future[TranslationResult]:
        """Translate one sentence of ids. `priority` 0 interactive, 1 document; `timeout` in seconds from now;
        `on_progress` gets the tokens so far. The future raises WorkerFailure."""
        job = TranslateJob(
            next(self._ids), model, tuple(source), options, priority, client, timeout, stream=on_progress is not None
        )
        return self._accept(job, on_progress)

    def attend(
        self,
        model: str,
        source: Iterable[int],
        target: Iterable[int],
        masked_heads: tuple[tuple[str, int, int], ...] = (),
        timeout: float | None = None,
        vectors_of: tuple[str, int, int] | None = None,
        words: tuple[WordedSentence, WordedSentence] | None = None,
    ) -> asyncio.Future[AttentionResult]:
        """Attention maps of a given pair; if asked with the vectors of one head, and with how well the `words` of both
        sides fit. The future raises WorkerFailure."""
        job = AttentionJob(
            next(self._ids),
            model,
            tuple(source),
            tuple(target),
            masked_heads,
            timeout,
            vectors_of=vectors_of,
            words=words,
        )
        return self._accept(job, None)

    def status(self) -> WorkerStatus:
        """What the workers are doing now; never waits."""
        up = [device for device in self._devices if device.ready is not None]
        first = up[0].ready if up else None
        served = {name for device in up for name in device.loaded}
        wanted = {entry.name for entry in self._catalogue if entry.settled and not entry.leaving}
        return WorkerStatus(
            ready=any(device.loaded and wanted <= set(device.loaded) for device in up),
            device=first.device if first else self._options.device,
            dtype=first.dtype if first else self._options.dtype,
            engine=first.engine if first else "",
            details=dict(first.details) if first else {},
            restarts=sum(device.restarts for device in self._devices),
            models=tuple(sorted(served)),
            errors={entry.name: entry.error for entry in self._catalogue if entry.error is not None},
            workers=tuple(
                DeviceStatus(device.name, device.ready is not None, device.pid, device.restarts, len(device.owed))
                for device in self._devices
            ),
            in_flight=len(self._flights),
        )

    def _accept(
        self, job: TranslateJob | AttentionJob, on_progress: Callable[[tuple[int, ...]], None] | None
    ) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        deadline = None if job.timeout is None else time.monotonic() + job.timeout
        flight = _Flight(job, loop.create_future(), deadline, on_progress)
        flight.future.add_done_callback(lambda future: self._settled(flight))
        self._flights[job.id] = flight
        self._idle.clear()
        if job.timeout is not None:
            delay = max(0.0, job.timeout) + _DEADLINE_SLACK
            flight.timer = loop.call_later(delay, self._fail, flight, "deadline", _LATE)
        entry = self._catalogue.get(job.model)
        if entry is not None and entry.leaving:
            self._fail(flight, "unknown_model", f"There is no model named {job.model}.")
        self._dispatch(flight)
        return flight.future

    def _dispatch(self, flight: _Flight) -> None:
        """Send a job to the least loaded worker that has its model; keep it while there is none, fail it if none comes."""
        if flight.future.done():
            return
        job = flight.job
        entry = self._catalogue.get(job.model)
        able = [device for device in self._devices if device.ready is not None and job.model in device.loaded]
        if self._closed:
            self._fail(flight, "cancelled", _SHUTDOWN)
        elif entry is None:
            self._fail(flight, "unknown_model", f"There is no model named {job.model}.")
        elif self._docket.guilty(job):
            self._fail(flight, "poison", _POISONOUS)
        elif able:
            self._lend(flight, min(able, key=lambda device: len(device.owed)))
        elif entry.error is not None:
            self._fail(flight, "unknown_model", f"The model {job.model} could not be loaded.")
        elif self._broken:
            self._fail(flight, "unavailable", _NO_WORKER)
        else:
            self._backlog[job.id] = flight

    def _lend(self, flight: _Flight, device: Device) -> None:
        self._backlog.pop(flight.job.id, None)
        flight.device = device
        job = flight.job
        timeout = None if flight.deadline is None else flight.deadline - time.monotonic()
        alone = self._docket.isolated(job)
        device.send(job if timeout is None and not alone else dataclasses.replace(job, timeout=timeout, alone=alone))

    def _settled(self, flight: _Flight) -> None:
        """The future has resolved, by an answer, a failure, or by its owner's cancelling it."""
        if flight.timer is not None:
            flight.timer.cancel()
        id = flight.job.id
        if flight.device is not None and id in flight.device.owed:
            flight.device.send(Cancel(id))
        self._backlog.pop(id, None)
        self._flights.pop(id, None)
        if not self._flights:
            self._idle.set()

    def _fail(self, flight: _Flight, kind: FailureKind, message: str) -> None:
        if not flight.future.done():
            flight.future.set_exception(WorkerFailure(kind, message))

    @property
    def _broken(self) -> bool:
        return bool(self._devices) and all(device.failures >= _BROKEN for device in self._devices)

    # -- what the devices tell -----------------------------------------------------------------------------------------

    def on_ready(self, device: Device) -> None:
        """A worker is up: give it its models; the first one knows how many devices there are."""
        there_are = 1 if device.ready is None else device.ready.device_count
        wanted = min(there_are, self._options.devices or there_are)
        while len(self._devices) < wanted and device.index == 0:
            self._add_device()
        self._load_next(device)

    def on_answer(self, answer: Answer) -> None:
        flight = self._flights.get(answer.id)
        if flight is None or flight.future.done():
            return
        self._docket.acquit(flight.job)
        if isinstance(answer, Failed):
            self._fail(flight, answer.kind, answer.message)
        else:
            flight.future.set_result(answer)

    def on_progress(self, progress: Progress) -> None:
        flight = self._flights.get(progress.id)
        if flight is not None and flight.on_progress is not None and len(progress.tokens) > flight.shown:
            flight.shown = len(progress.tokens)
            _tell(flight.on_progress, progress.tokens)

    def on_loaded(self, device: Device, version: int, loaded: ModelLoaded) -> None:
        """A model was loaded or refused: tell who waits for it, send the jobs that waited, go on with the next."""
        others = [other for other in self._devices if other.ready is not None]
        self._catalogue.loaded(loaded, version, others)
        self._flush_backlog()
        self._load_next(device)

    def on_unloaded(self, device: Device, model: str) -> None:
        _log.info("worker %d unloaded %s", device.index, model)

    def on_stats(self, device: Device, stats: StepStats) -> None:
        """Sums pass through; what is as of now is added up over the workers."""
        _tell(self._on_stats, self._state(stats))

    def on_death(self, device: Device, death: Death) -> None:
        """A worker ended: note who was running, send everything it owed again."""
        if death.loading is not None:
            self._catalogue.died_loading(*death.loading, _OUTSIDE if death.outside else _CRASH)
        for job in death.running:
            self._docket.strike(job, outside=death.outside)
            if self._docket.guilty(job):
                _log.error("job %d killed its worker again; it is not tried any more", job.id)
        if self._broken:
            self._docket.clear()
        for job in sorted(death.owed, key=lambda job: (self._docket.rank(job), job.id)):
            flight = self._flights.get(job.id)
            if flight is not None:
                flight.device = None
                self._dispatch(flight)
        if self._broken:
            self._catalogue.give_up(_NO_WORKER)
        self._flush_backlog()
        _tell(self._on_stats, self._state(_NOTHING))

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _flush_backlog(self) -> None:
        """Something changed: send what can be sent now, fail what has nothing to wait for."""
        for flight in list(self._backlog.values()):
            self._dispatch(flight)

    def _state(self, stats: StepStats) -> StepStats:
        """`stats` with the state of all workers together."""
        states = [device.stats for device in self._devices if device.stats is not None]
        return dataclasses.replace(
            stats,
            running=sum(state.running for state in states),
            waiting=sum(state.waiting for state in states),
            slots_used=sum(state.slots_used for state in states),
            slots_total=sum(state.slots_total for state in states),
        )


def _tell(listener: Callable[[_News], None], news: _News) -> None:
    """Call a listener; what it raises is its own affair and must not cost anybody an answer."""
    try:
        listener(news)
    except Exception:  # noqa: BLE001  a stranger's code
        _log.exception("a listener of the workers failed")

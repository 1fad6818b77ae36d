"""Waiting and running sequences, their slots, and who is admitted when. Pure Python: time comes in, decisions go out.

    turn = scheduler.schedule(now)   # who expired, whom to prefill, which lanes to decode, which look inside to run
    scheduler.finish(sequence)       # answered: its slots are free for the next turn
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from itertools import count

from server.engine.ipc.messages import AttentionJob, TranslateJob
from server.engine.worker.fair_queue import FairQueue
from server.engine.worker.sequence import Look, Sequence

_GROUP = 8
"""While others run and more wait than fit, newcomers are admitted in groups of at least slots / _GROUP ..."""
_HELD = 2
"""... but are held back for at most so many turns."""
_STALL_SECONDS, _STALL_STEPS = 0.05, 3.0
_LEAST_CHUNK = 64
"""While others run, a prefill may take about _STALL_SECONDS or as long as _STALL_STEPS decode steps, and longer where
more slots are free than run: running sequences do not stand still for long, free slots do not stay empty for long."""
_TRANSLATORS_SHARE = 3.0
"""After a look inside of t seconds, translators who are there get _TRANSLATORS_SHARE * t seconds for themselves."""


@dataclass(slots=True, eq=False)
class Lane:
    """One loaded model: its slots, who waits for them and who runs in them (by job id). `jobs` counts everybody who is
    not answered yet, looks inside included. A `closing` lane takes no further jobs."""

    number: int
    model: str
    slots: int
    queue: FairQueue = field(default_factory=FairQueue)
    free: list[int] = field(default_factory=list)
    running: dict[int, Sequence] = field(default_factory=dict)
    jobs: int = 0
    closing: bool = False
    held: int = 0


@dataclass(slots=True)
class Turn:
    """What to do now. `expired` passed their deadline and hold nothing any more. Newcomers of `prefill` are among the
    running of their lane already, so that they decode in the same turn."""

    expired: list[Sequence | Look] = field(default_factory=list)
    prefill: list[tuple[Lane, list[Sequence]]] = field(default_factory=list)
    decode: list[Lane] = field(default_factory=list)
    look: Look | None = None


class Scheduler:
    """Decides for all models of one worker. `max_batch_tokens` bounds the padded source tokens of a prefill,
    `max_looks` the attention jobs that may wait."""

    def __init__(self, max_batch_tokens: int, max_looks: int) -> None:
        self._max_batch_tokens = max_batch_tokens
        self._max_looks = max_looks
        self._lanes: dict[int, Lane] = {}
        self._current: dict[str, Lane] = {}
        self._numbers = count()
        self._jobs: dict[int, Sequence | Look] = {}
        self._deadlines: list[tuple[float, int]] = []
        self._looks: deque[Look] = deque()
        self._alone: deque[Sequence | Look] = deque()
        self._isolated: Sequence | Look | None = None
        self._next_look = 0.0
        self._rate: float | None = None
        """Padded tokens encoded per second, lately."""
        self._step_seconds = 0.0

    # -- models --------------------------------------------------------------------------------------------------------

    def open(self, model: str, slots: int, *, same: bool = False) -> Lane:
        """A model was loaded; new jobs of this name go to its lane. Those accepted before finish in the old lane, whose
        vocabulary they were written in; where it is the `same` model on another engine, those who wait move over."""
        lane = Lane(next(self._numbers), model, slots, free=list(range(slots)))
        old = self._current.get(model)
        self._lanes[lane.number] = self._current[model] = lane
        if old is not None:
            old.closing = True
            if same:
                self._move(old, lane)
        return lane

    def close(self, model: str) -> bool:
        """Take no further jobs for `model`; False if there is none. Its lane is over when all are answered."""
        lane = self._current.pop(model, None)
        if lane is not None:
            lane.closing = True
        return lane is not None

    def retire(self) -> list[Lane]:
        """Closed lanes whose last job is answered, each named once."""
        over = [lane for lane in self._lanes.values() if lane.closing and not lane.jobs]
        for lane in over:
            del self._lanes[lane.number]
        return over

    def lane(self, model: str) -> Lane | None:
        """Where jobs for `model` go now."""
        return self._current.get(model)

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Jobs that are not answered."""
        return len(self._jobs)

    @property
    def running(self) -> list[Sequence]:
        return [sequence for lane in self._lanes.values() for sequence in lane.running.values()]

    @property
    def slots(self) -> tuple[int, int]:
        """Slots in use and slots there are."""
        free = sum(len(lane.free) for lane in self._lanes.values())
        total = sum(lane.slots for lane in self._lanes.values())
        return total - free, total

    def add(self, job: TranslateJob, now: float) -> None:
        """A job for a model that is open and has slots enough for its beams."""
        sequence = Sequence(job, now, self._deadline(job, now), self._current[job.model].number, job.alone)
        self._register(sequence)
        if sequence.alone:
            self._alone.append(sequence)
        else:
            self._current[job.model].queue.push(sequence)

    def look(self, job: AttentionJob, now: float) -> bool:
        """An attention job for a model that is open; False where too many wait already."""
        if len(self._looks) >= self._max_looks:
            return False
        look = Look(job, now, self._deadline(job, now), self._current[job.model].number, job.alone)
        self._register(look)
        (self._alone if look.alone else self._looks).append(look)
        return True

    def finish(self, id: int) -> Sequence | Look | None:
        """The job is answered or cancelled: what it held is free before the next step. None if it was before."""
        job = self._jobs.pop(id, None)
        if job is not None:
            self._leave(job)
            job.gone = True
            self._lanes[job.lane].jobs -= 1
        return job

    def again(self, job: Sequence) -> None:
        """Run `job` once more from its start, with nothing beside it: one of its batch broke the step."""
        self._leave(job)
        job.alone, job.slots, job.steps, job.first_token = True, (), 0, 0.0
        self._alone.append(job)

    def prefilled(self, padded_tokens: int, seconds: float) -> None:
        """A prefill took `seconds`."""
        rate = padded_tokens / max(seconds, 1e-6)
        self._rate = rate if self._rate is None else 0.8 * self._rate + 0.2 * rate

    def stepped(self, seconds: float) -> None:
        """A decode step took `seconds`."""
        self._step_seconds += 0.2 * (seconds - self._step_seconds)

    def looked(self, now: float, seconds: float) -> None:
        """A look inside took `seconds`."""
        self._next_look = now + _TRANSLATORS_SHARE * seconds

    # -- decisions -----------------------------------------------------------------------------------------------------

    def schedule(self, now: float) -> Turn:
        """Expire, admit, and say what runs. While there are jobs, every turn does something for one of them."""
        turn = Turn(expired=self._expire(now))
        if self._isolated is None and self._alone:
            if not any(lane.running for lane in self._lanes.values()):
                self._isolate(turn)
        elif self._isolated is None:
            for lane in self._lanes.values():
                self._admit(lane, turn)
            self._choose_look(turn, now)
        turn.decode = [lane for lane in self._lanes.values() if lane.running]
        return turn

    def _expire(self, now: float) -> list[Sequence | Look]:
        expired: list[Sequence | Look] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            job = self.finish(heapq.heappop(self._deadlines)[1])
            if job is not None:
                expired.append(job)
        return expired

    def _isolate(self, turn: Turn) -> None:
        self._isolated = job = self._alone.popleft()
        if isinstance(job, Look):
            job.running = True
            turn.look = job
        else:
            lane = self._lanes[job.lane]
            self._occupy(lane, job)
            turn.prefill.append((lane, [job]))

    def _admit(self, lane: Lane, turn: Turn) -> None:
        if not lane.queue or not lane.free:
            return
        if lane.running and len(lane.free) < min(len(lane.queue), lane.slots // _GROUP) and lane.held < _HELD:
            lane.held += 1
            return
        lane.held = 0
        newcomers = lane.queue.take(len(lane.free), self._chunk(lane))
        for sequence in newcomers:
            self._occupy(lane, sequence)
        if newcomers:
            turn.prefill.append((lane, newcomers))

    def _chunk(self, lane: Lane) -> int:
        """Padded tokens that the next prefill may have."""
        if not lane.running or self._rate is None:
            return self._max_batch_tokens // 4 if lane.running else self._max_batch_tokens
        stall = max(_STALL_SECONDS, _STALL_STEPS * self._step_seconds)
        stall *= max(1.0, len(lane.free) / (lane.slots - len(lane.free)))
        return min(self._max_batch_tokens, max(_LEAST_CHUNK, int(self._rate * stall)))

    def _choose_look(self, turn: Turn, now: float) -> None:
        translators = any(lane.running or lane.queue for lane in self._lanes.values())
        if self._looks and (not translators or now >= self._next_look):
            turn.look = self._looks.popleft()
            turn.look.running = True

    # -- parts ---------------------------------------------------------------------------------------------------------

    @staticmethod
    def _deadline(job: TranslateJob | AttentionJob, now: float) -> float | None:
        return None if job.timeout is None else now + job.timeout

    def _register(self, job: Sequence | Look) -> None:
        self._jobs[job.id] = job
        self._lanes[job.lane].jobs += 1
        if job.deadline is not None:
            heapq.heappush(self._deadlines, (job.deadline, job.id))

    def _move(self, old: Lane, lane: Lane) -> None:
        lane.queue, old.queue = old.queue, FairQueue()
        for job in self._jobs.values():
            if job.lane == old.number and not job.running:
                job.lane = lane.number
                old.jobs, lane.jobs = old.jobs - 1, lane.jobs + 1

    def _occupy(self, lane: Lane, sequence: Sequence) -> None:
        sequence.slots = tuple(heapq.heappop(lane.free) for _ in range(sequence.width))
        sequence.running = True
        lane.running[sequence.id] = sequence

    def _leave(self, job: Sequence | Look) -> None:
        """Take `job` from wherever it waits or runs."""
        lane = self._lanes[job.lane]
        if job is self._isolated:
            self._isolated = None
        if job.running:
            job.running = False
            if isinstance(job, Sequence):
                del lane.running[job.id]
                for slot in job.slots:
                    heapq.heappush(lane.free, slot)
        elif job.alone:
            self._alone.remove(job)
        elif isinstance(job, Look):
            self._looks.remove(job)
        else:
            lane.queue.drop(job)

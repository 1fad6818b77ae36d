"""Drives a Scheduler as a worker does, in simulated time: a step costs a constant and a part per
row."""

from __future__ import annotations

import math
from itertools import count

from model.analysis.types import ALIGNMENT
from model.search.options import DecodingOptions
from server.engine.ipc.messages import Job, Look
from server.engine.worker.scheduler import ModelQueue, Scheduler
from server.engine.worker.sequence import Sequence

_STEP_SECONDS, _ROW_SECONDS, _PREFILL_SECONDS, _LOOK_SECONDS = 0.001, 0.00025, 0.003, 0.003
"""Costs of a step, of a row in it, of encoding a sentence, and of a look, about those of one
core."""
_MULTI_STEPS = 4
"""Steps of a call without documents; documents have beams, which advance one step at a time."""
HOG = "hog"
_SHORTEST, _VARIETY = 10, 11
"""Sentences have from _SHORTEST to _SHORTEST + _VARIETY - 1 source tokens, and take as many
steps."""


class SimulatedWorker:
    """A model with `slots` slots. `now` is the time in seconds, `latencies` are the seconds of the
    interactive sentences that were answered, `documents` and `hog` count sentences that are not
    answered. A `marked` sentence is answered after a look at its translation."""

    def __init__(self, slots: int = 64, *, marked: bool = False) -> None:
        self._marked = marked
        self._looks: dict[int, Sequence] = {}
        """The translations of looks by their ids."""
        self._scheduler = Scheduler(max_batch_tokens=4096)
        self._scheduler.queues["m"] = ModelQueue(slots)
        self._ids = count()
        self._waiting_clients: set[str] = set()
        self.now = 0.0
        self.latencies: list[float] = []
        self.documents = self.hog = 0

    def add_documents(self, number: int, beam: int) -> None:
        """Adds so many sentences of a document."""
        for _ in range(number):
            self._add(beam, "document", priority=1)
        self.documents += number

    def add_hog(self, number: int, beam: int) -> None:
        """Adds so many interactive sentences of one client, which are not among the latencies."""
        for _ in range(number):
            self._add(beam, HOG)
        self.hog += number

    def add_scores(self, number: int) -> None:
        """Adds so many long targets of one client that are only scored."""
        for _ in range(number):
            options = DecodingOptions(target=(5,) * 60)
            self._scheduler.add(Job(next(self._ids), "m", (4,) * 60, options, 0, HOG), self.now)
        self.hog += number

    def add_looks(self, number: int, client: str, *, priority: int) -> None:
        """Adds so many looks of one client, which are not among the latencies."""
        for _ in range(number):
            self._add_look(client, priority)

    def _add_look(self, client: str, priority: int = 0) -> int:
        id = next(self._ids)
        job = Job(
            id,
            "m",
            (4,) * 12,
            DecodingOptions(target=(5,) * 12),
            priority,
            client,
            look=Look(ALIGNMENT),
        )
        self._scheduler.add(job, self.now)
        return id

    def run(self, clients: int = 0, seconds: float = math.inf, beam: int = 1) -> None:
        """Runs for `seconds`, or until the documents that wait are answered. Each of the clients
        sends a sentence after each answer; those of an earlier call that are more stop after their
        answer."""
        names, end = {str(number) for number in range(clients)}, self.now + seconds
        for client in sorted(names - self._waiting_clients):
            self._add(beam, client)
        documents = self.documents > 0
        while (
            self.now < end
            and self.documents >= documents
            and (self.documents or self._waiting_clients)
        ):
            for client in self._step(self._scheduler.schedule()) & names:
                self._add(beam, client)

    def _add(self, beam: int, client: str, priority: int = 0) -> None:
        id = next(self._ids)
        source = (4,) * (_SHORTEST + 5 * id % _VARIETY)
        self._scheduler.add(
            Job(id, "m", source, DecodingOptions(beam_size=beam), priority, client), self.now
        )
        if not priority and client != HOG:
            self._waiting_clients.add(client)

    def _step(self, batches: list[list[Sequence]]) -> set[str]:
        """Runs the batches of a turn; returns the clients whose sentence was answered."""
        answered: set[str] = set()
        requests = [look for batch in batches for look in batch if look.kind.look]
        for decoding in batches:
            if decoding[0].kind.look:
                self.now += _LOOK_SECONDS * len(decoding)
                self._scheduler.charge(decoding, [1] * len(decoding), _LOOK_SECONDS * len(decoding))
                continue
            admitted = [sequence for sequence in decoding if not sequence.admitted]
            for sequence in admitted:
                sequence.admitted = 1.0
            if admitted:
                seconds = _PREFILL_SECONDS * len(admitted)
                self.now += seconds
                self._scheduler.record_prefill(admitted, seconds)
            steps = 1 if any(sequence.kind.document for sequence in decoding) else _MULTI_STEPS
            for sequence in decoding:
                sequence.read = max(1, min(sequence.known, sequence.room) // steps)
            rows = sum(sequence.width * sequence.read for sequence in decoding)
            seconds = steps * (_STEP_SECONDS + _ROW_SECONDS * rows)
            self.now += seconds
            self._scheduler.record_step(decoding, seconds, steps)
            ended = [sequence for sequence in decoding if self._advance(sequence, steps)]
            if self._marked:
                self._looks |= {self._add_look(sequence.job.client): sequence for sequence in ended}
            else:
                answered |= {sequence.job.client for sequence in ended}
        for request in requests:
            self._scheduler.finish(request.id)
            if (sequence := self._looks.pop(request.id, None)) is not None:
                self.latencies.append(self.now - sequence.arrived)
                answered.add(sequence.job.client)
        self._waiting_clients -= answered
        return answered

    def _advance(self, sequence: Sequence, steps: int) -> bool:
        """Returns whether the sequence is answered after so many more steps."""
        sequence.steps += steps * sequence.read
        if sequence.steps < sequence.length:
            return False
        self._scheduler.finish(sequence.id)
        if sequence.kind.document:
            self.documents -= 1
        elif sequence.job.client == HOG:
            self.hog -= 1
        elif not self._marked:
            self.latencies.append(self.now - sequence.arrived)
        return True

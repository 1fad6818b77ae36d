"""A worker with several API processes: every job is answered once, to the process that sent it,
whatever the order."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from model.search.options import DecodingOptions
from server.engine.ipc.messages import (
    Cancel,
    Failed,
    Job,
    JobResult,
    ModelLoaded,
    Progress,
    Started,
    StepStats,
    UnloadModel,
    WorkerReady,
)
from server.engine.ipc.options import WorkerOptions
from server.engine.ipc.transport import Unpacker, pack
from server.engine.worker.connections import Connections
from server.engine.worker.loop import WorkerLoop

READY = WorkerReady("cpu", "int8", "fake")


@dataclass(eq=False)
class Process:
    """An API process: the jobs that it sent by id, and what it received."""

    path: str
    sent: dict[int, int] = field(default_factory=dict)  # id -> payload
    received: list[Any] = field(default_factory=list)
    cancelled: set[int] = field(default_factory=set)
    gone: bool = False

    def __post_init__(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(self.path)
        self.socket.setblocking(False)
        self.unpacker = Unpacker()

    def send(self, *messages: Any) -> None:
        self.socket.sendall(pack(messages))

    def read(self) -> None:
        try:
            while data := self.socket.recv(1 << 16):
                self.received += self.unpacker.feed(data)
        except BlockingIOError:
            pass


class Bench:
    """The connections of a worker, and the other end of its pipes."""

    def __init__(self, folder: Path) -> None:
        commands, self.commands = os.pipe()
        self.reports, answers = os.pipe()
        os.set_blocking(self.reports, False)
        self.path = str(folder / "worker-0.sock")
        self.ends = commands, answers
        self.connections = Connections(*self.ends, self.path)
        self.unpacker = Unpacker()
        self.processes: list[Process] = []

    def process(self) -> Process:
        self.processes.append(Process(self.path))
        return self.processes[-1]

    def close(self) -> None:
        self.connections.close()
        for process in self.processes:
            process.socket.close()
        for end in (self.commands, self.reports):
            os.close(end)

    def command(self, *messages: Any) -> None:
        os.write(self.commands, pack(messages))

    def reported(self) -> list[Any]:
        try:
            return self.unpacker.feed(os.read(self.reports, 1 << 20))
        except BlockingIOError:
            return []

    def receive(self) -> list[Any]:
        """Returns all that has arrived: connections first, then what they bring."""
        messages = self.connections.receive(0.0)
        while more := self.connections.receive(0.0):
            messages += more
        return messages


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def job(id: int, payload: int) -> Job:
    return Job(id, "m", (payload,), DecodingOptions())


@pytest.mark.parametrize("seed", range(20))
def test_any_schedule_answers_each_job_once_to_its_process(bench, seed):
    rng = random.Random(seed)
    waiting: dict[int, int] = {}  # number -> payload, in the worker
    processes = [bench.process() for _ in range(rng.randint(1, 5))]
    payloads, before = 0, 0
    for _ in range(150):
        process = rng.choice(processes)
        match rng.choice(
            ("job", "job", "job", "cancel", "answer", "answer", "start", "new", "end")
        ):
            case "job" if not process.gone:
                payloads += 1
                id = len(process.sent) + 1  # the same ids in all processes
                process.sent[id] = payloads
                process.send(job(id, payloads))
            case "cancel" if process.sent and not process.gone:
                process.cancelled.add(id := rng.choice([*process.sent]))
                process.send(Cancel(id))
            case "answer" if waiting:
                number = rng.choice([*waiting])
                payload = waiting.pop(number)
                bench.connections.send(
                    [Progress(number, (payload,)), JobResult(number, steps=payload)]
                )
            case "start" if waiting:
                bench.connections.send([Started(tuple(waiting))])
            case "new":
                processes.append(bench.process())
            case "end" if len(processes) > 1 and not process.gone:
                process.gone = True
                process.socket.close()
        for message in bench.receive():
            if isinstance(message, Job):
                assert message.id > before, "numbers are in the order of arrival"
                before = message.id
                waiting[message.id] = message.source[0]
            else:
                assert isinstance(message, Cancel)
                if waiting.pop(message.id, None) is not None:
                    bench.connections.send([Failed(message.id, "cancelled", "It was cancelled.")])
    alive = {
        payload for process in processes if not process.gone for payload in process.sent.values()
    }
    assert set(waiting.values()) <= alive, "the jobs of a process that ended are cancelled"
    bench.connections.send(
        [JobResult(number, steps=payload) for number, payload in waiting.items()]
    )
    for process in processes:
        if process.gone:
            continue
        process.read()
        answers = [
            message for message in process.received if isinstance(message, JobResult | Failed)
        ]
        assert sorted(answer.id for answer in answers) == sorted(process.sent)
        for message in process.received:
            if isinstance(message, JobResult):
                assert message.steps == process.sent[message.id]
            elif isinstance(message, Progress):
                assert message.tokens == (process.sent[message.id],)
            elif isinstance(message, Failed):
                assert message.id in process.cancelled
            elif isinstance(message, Started):
                assert set(message.ids) <= process.sent.keys()


def test_a_process_that_connects_later_knows_what_the_worker_serves(bench):
    first = bench.process()
    bench.receive()
    bench.connections.send(
        [READY, ModelLoaded("a"), ModelLoaded("b"), ModelLoaded("c", error="It is damaged.")]
    )
    bench.command(UnloadModel("a"))
    assert bench.receive() == [UnloadModel("a")]
    second = bench.process()
    bench.receive()
    first.read()
    second.read()
    assert first.received == [READY, ModelLoaded("a"), ModelLoaded("b"), UnloadModel("a")]
    assert second.received == [READY, ModelLoaded("b")]
    assert [type(message) for message in bench.reported()] == [WorkerReady, *[ModelLoaded] * 3]


def test_statistics_are_for_the_owner_alone(bench):
    process = bench.process()
    bench.receive()
    for number in range(50):
        bench.connections.send(
            [StepStats(running=number, steps=[(number, 0.5)], prefill_sequences=1)]
        )
    process.read()
    assert [report.running for report in bench.reported()] == list(range(50))
    assert not process.received


@pytest.mark.parametrize("others", [0, 1])
def test_an_idle_worker_wakes_the_owner_of_others_jobs_ten_times_a_second(
    bench, others, monkeypatch
):
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    for _ in range(others):
        bench.process()
    bench.receive()
    runner = Mock(ready=lambda: READY, loaded=list, loading=lambda: False)
    worker = WorkerLoop(bench.connections, runner, WorkerOptions())
    waits: list[float | None] = []
    monkeypatch.setattr(worker._pipes, "receive", lambda wait: waits.append(wait) or [])
    for number in range(100):  # steps of 10 ms, with a pause after each
        now = 100 + number / 100
        worker._stats.steps.append((number, 0.5))
        worker._flush()
        worker._receive()
    now += 0.1
    worker._flush()
    found = [report.steps for report in bench.reported()]
    waited = [wait for wait in waits if wait is not None]
    assert max(waited, default=0.0) <= 0.1 and (len(waited) > 80) == bool(others)
    assert [row for steps in found for row, _ in steps] == list(range(100))
    assert len(found) in ((100,) if not others else (10, 11))


@pytest.mark.parametrize("seed", range(10))
def test_the_owner_may_send_jobs_too(bench, seed):
    rng, process = random.Random(seed), bench.process()
    owned, sent = list(range(1, 30)), list(range(1, 20))
    for id in rng.sample([*owned, *[-id for id in sent]], len(owned) + len(sent)):
        bench.command(job(id, id)) if id > 0 else process.send(job(-id, id))
    jobs = [message for message in bench.receive() if isinstance(message, Job)]
    for each in rng.sample(jobs, len(jobs)):
        bench.connections.send([JobResult(each.id, steps=each.source[0])])
    process.read()
    reports = bench.reported()
    assert sorted((answer.id, answer.steps) for answer in reports) == [(id, id) for id in owned]
    assert sorted((answer.id, -answer.steps) for answer in process.received) == [
        (id, id) for id in sent
    ]


def test_an_owner_that_has_gone_ends_the_worker(bench):
    bench.process()
    bench.receive()
    assert not bench.connections.closed
    bench.connections.send([StepStats()])
    os.close(bench.commands)
    assert bench.connections.receive(None) == []
    assert bench.connections.closed
    bench.commands = os.dup(0)


def test_a_process_that_does_not_read_delays_no_other(bench):
    """Its answers wait in memory, and it gets them when it reads again."""
    stuck, other = bench.process(), bench.process()
    stuck.send(*(job(id, id) for id in range(1, 40)))
    other.send(job(1, 1))
    text = "x" * 100_000
    for message in bench.receive():
        bench.connections.send([Failed(message.id, "invalid", text)])
    other.read()
    assert [answer.id for answer in other.received] == [1]
    for _ in range(500):
        stuck.read()
        bench.receive()
    assert [answer.id for answer in stuck.received] == list(range(1, 40))

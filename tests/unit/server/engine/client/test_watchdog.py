"""A frozen worker is found in 15 seconds; one that computes has longer, and so has one whose
processor time is unknown."""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import Any
from unittest.mock import Mock

import pytest

from model.search.options import DecodingOptions
from server.engine.client.worker_pool import WorkerPool
from server.engine.client.worker_subprocess import CpuUse, WorkerSubprocess
from server.engine.client.worker_supervisor import (
    _FROZEN_SECONDS,
    _SUSPECT_SECONDS,
    WorkerSupervisor,
)
from server.engine.ipc.messages import Job, JobResult, LoadModel, StepStats, Timings, WorkerReady
from server.engine.ipc.options import WorkerOptions
from server.engine.worker.loop import WorkerLoop

OPTIONS = WorkerOptions()


class Process:
    """A worker process whose processor time is `ticks`; `stopped` by a signal."""

    pid = 1
    ticks: int | None = 0
    stopped = aborted = False

    def cpu_use(self) -> CpuUse | None:
        return None if self.ticks is None else CpuUse(self.stopped, self.ticks)

    def send(self, message: Any) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True


def with_a_job(process: Process) -> WorkerSupervisor:
    supervisor = WorkerSupervisor(0, OPTIONS, ("worker",), lambda *_: None)
    supervisor._process = process  # type: ignore[assignment]
    supervisor._on_messages([WorkerReady("cpu", "float32", "native")])
    supervisor.send(Job(1, "m", (1,), DecodingOptions()))
    return supervisor


def seconds_until_abort(supervisor: WorkerSupervisor, process: Process, tick: float = 0.5) -> float:
    for number in range(1, 1000):
        supervisor.tick(tick)
        if process.aborted:
            return number * tick
    return float("inf")


@pytest.mark.parametrize("seed", range(20))
def test_a_worker_that_computes_or_answers_at_times_is_not_frozen(seed: int) -> None:
    rng, process = random.Random(seed), Process()
    supervisor = with_a_job(process)
    for _ in range(30):
        for _ in range(rng.randrange(1, int(_FROZEN_SECONDS))):
            supervisor.tick(1.0)
        if rng.random() < 0.5:
            supervisor._on_messages([StepStats()])
        else:
            process.ticks = (process.ticks or 0) + 1
        if supervisor._silent > OPTIONS.watchdog_seconds - _FROZEN_SECONDS:
            supervisor._on_messages([StepStats()])
        assert not process.aborted
    assert _FROZEN_SECONDS <= seconds_until_abort(supervisor, process) <= _FROZEN_SECONDS + 1


@pytest.mark.parametrize("kind", ["computes", "unknown"])
def test_a_silent_worker_that_may_compute_has_longer(kind: str) -> None:
    process = Process()
    supervisor = with_a_job(process)
    if kind == "unknown":
        process.ticks = None
    for _ in range(int(OPTIONS.watchdog_seconds)):
        process.ticks = (
            process.ticks + 1 if kind == "computes" and process.ticks is not None else process.ticks
        )
        supervisor.tick(1.0)
        assert not process.aborted
    assert seconds_until_abort(supervisor, process) <= 1


@pytest.mark.parametrize("busy", [True, False])
def test_a_stopped_worker_counts_as_frozen_before_it_is_killed_busy_or_not(busy: bool) -> None:
    """/ready and the metrics say so, its server is not ready, and other workers get its jobs."""
    process = Process()
    frozen, other = with_a_job(process), with_a_job(Process())
    pool = WorkerPool(OPTIONS, lambda stats: None)
    pool._workers += [frozen, other]
    for worker in pool._workers:
        worker.loaded.add("m")
        worker._on_messages([JobResult(1, (), Timings(0, 0, 0, 0), 1)])
    pool._models["m"] = Mock(key="m", error=None, unloading=False)
    for number in range(2):
        frozen.send(Job(number, "m", (1,), DecodingOptions()))
    other.send(Job(1, "m", (1,), DecodingOptions()))
    if not busy:
        frozen.pending.clear()
    process.stopped = True
    for _ in range(int(_SUSPECT_SECONDS) + 1):
        assert frozen.state == "up" and not process.aborted
        frozen.tick(1.0)
        other._on_messages([StepStats()])
    state = pool.status()
    assert ([worker.state for worker in state.workers], state.workers[0].up, state.ready) == (
        ["frozen", "up"],
        False,
        True,
    )
    assert pool._least_loaded("m", suspected=False) is other
    pool._workers.remove(other)
    assert not pool.status().ready
    # the job waits for it or for the next process
    assert pool._least_loaded("m", suspected=False) is frozen
    frozen._on_messages([StepStats()])
    assert pool.status().ready  # it went on
    assert seconds_until_abort(frozen, process) <= _FROZEN_SECONDS + 1
    assert pool.status().workers[0].hangs == 1


def test_a_worker_that_runs_a_third_of_the_time_is_not_frozen() -> None:
    process = Process()
    supervisor = with_a_job(process)
    for second in range(1800):
        process.stopped = second % 12 < 8
        process.ticks = process.ticks if process.stopped else (process.ticks or 0) + 90
        if second % 24 == 23:
            supervisor._on_messages([StepStats()])
        supervisor.tick(1.0)
        assert supervisor.state == "up" and not process.aborted


def test_a_worker_that_is_frozen_while_it_loads_is_found_as_soon() -> None:
    process = Process()
    supervisor = WorkerSupervisor(0, OPTIONS, ("worker",), lambda *_: None)
    supervisor._process = process  # type: ignore[assignment]
    supervisor._on_messages([WorkerReady("cpu", "float32", "native")])
    for _ in range(100):
        supervisor.tick(1.0)  # it has nothing to do
    supervisor.load(LoadModel("m", "folder"))
    for _ in range(100):
        supervisor.tick(1.0)
        supervisor._on_messages([StepStats()])  # the disk is slow
    assert not process.aborted
    assert seconds_until_abort(supervisor, process) <= _FROZEN_SECONDS + 1


def test_a_worker_that_loads_reports() -> None:
    pipes = Mock(shared=False)
    loop = WorkerLoop(pipes, Mock(loading=lambda: True), OPTIONS)
    for _ in range(3):
        loop._flush()
    assert [[type(message) for message in call.args[0]] for call in pipes.send.call_args_list] == [
        [StepStats]
    ] * 3


async def test_processor_time_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerSubprocess, "pid", os.getpid())
    process = WorkerSubprocess(lambda _: None, lambda _: None)
    before = process.cpu_use()
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    after = process.cpu_use()
    assert before is after is None or (
        before is not None and after is not None and after > before and not after.stopped
    )


@pytest.mark.parametrize("failures", [0, 1, 10, 1_000, 10**6])
async def test_a_worker_is_started_again_however_often_it_failed(failures: int) -> None:
    supervisor = WorkerSupervisor(0, OPTIONS, ("worker",), lambda *_: None)
    supervisor.failures = failures
    supervisor._on_exit(1)
    assert supervisor._restart is not None
    wait = supervisor._restart.when() - asyncio.get_running_loop().time()
    supervisor._restart.cancel()
    assert wait <= 30.0 and (failures < 10 or wait > 29.0)

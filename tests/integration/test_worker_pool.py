"""Every future resolves exactly once, even if the worker crashes, hangs or is killed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from model.search.options import DecodingOptions
from server.engine.client import worker_supervisor
from server.engine.client.status import WorkerFailure
from server.engine.client.worker_pool import WorkerPool
from server.engine.ipc.messages import Job, JobResult, Look, StepStats
from server.engine.ipc.options import WorkerOptions
from tests.support.engine.fake_worker import COMMAND, CRASH, HANG, KILL, RAISE, REFUSED, expected
from tests.support.engine.loading import load, unload

GREEDY = DecodingOptions()
FAST, SLOW = Path("1"), Path("1-5")


class Crew:
    """A pool of fake workers, with all statistics that it reported."""

    def __init__(self, options: WorkerOptions, command: tuple[str, ...]) -> None:
        self.stats: list[StepStats] = []
        self.workers = WorkerPool(options, self.stats.append, command)

    def submit(
        self,
        source: tuple[int, ...],
        options: DecodingOptions = GREEDY,
        model: str = "m",
        on_progress: Callable[[tuple[int, ...]], None] | None = None,
        **fields: Any,
    ) -> asyncio.Future[JobResult]:
        job = Job(0, model, source, options, stream=on_progress is not None, **fields)
        return self.workers.submit(job, on_progress)

    def attend(self, source: tuple[int, ...], target: tuple[int, ...]) -> asyncio.Future[JobResult]:
        return self.workers.submit(Job(0, "m", source, DecodingOptions(target=target), look=Look()))


@asynccontextmanager
async def crew(
    folder: Path | None = FAST,
    grace: float = 0.0,
    command: tuple[str, ...] = COMMAND,
    **options: object,
) -> AsyncIterator[Crew]:
    made = Crew(WorkerOptions(**options), command)  # type: ignore[arg-type]
    await made.workers.start()
    try:
        if folder is not None:
            assert (await load(made.workers, "m", folder)).error is None
        yield made
    finally:
        await made.workers.stop(grace)


def sources(number: int, seed: int = 1) -> list[tuple[int, ...]]:
    rng = random.Random(seed)
    return [tuple(rng.randrange(1000) for _ in range(rng.randint(1, 30))) for _ in range(number)]


def check(texts: list[tuple[int, ...]], answers: list[JobResult | BaseException]) -> None:
    for text, answer in zip(texts, answers, strict=True):
        assert isinstance(answer, JobResult), answer
        assert answer.hypotheses[0].tokens == expected(text)


async def kind_of(future: asyncio.Future[JobResult]) -> str:
    with pytest.raises(WorkerFailure) as caught:
        await future
    return caught.value.kind


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def kill(workers: WorkerPool, index: int = 0) -> None:
    """Kills a worker process, and waits until the pool has noticed."""
    before = workers.status().workers[index].restarts
    await until(lambda: workers.status().workers[index].pid is not None)
    with suppress(ProcessLookupError):  # it has just ended by itself
        os.kill(workers.status().workers[index].pid, signal.SIGKILL)
    await until(lambda: workers.status().workers[index].restarts > before)


async def test_every_job_is_answered_and_the_statistics_add_up() -> None:
    async with crew() as made:
        texts = sources(300)
        futures = [made.submit(text, client=str(i % 7)) for i, text in enumerate(texts)]
        check(texts, list(await asyncio.gather(*futures, return_exceptions=True)))
        assert sum(s.prefill_tokens for s in made.stats) == sum(map(len, texts))
        assert sum(s.prefill_sequences for s in made.stats) == len(texts)
        assert sum(rows for s in made.stats for rows, _ in s.steps) == sum(map(len, texts))
        assert made.stats[-1].running == made.stats[-1].waiting == made.stats[-1].slots_used == 0
        status = made.workers.status()
        assert (
            status.ready
            and status.models == ("m",)
            and status.in_flight == 0
            and status.restarts == 0
        )


async def test_a_worker_without_its_device_is_not_restarted() -> None:
    async with crew(None, device="cuda") as made:
        assert "no CUDA device" in ((await load(made.workers, "m", FAST)).error or "")
        status = made.workers.status()
        assert status.no_device and not status.ready and status.restarts == 0
        with pytest.raises(WorkerFailure):
            await made.submit((1, 2))


async def test_a_server_whose_worker_restarts_is_not_ready_and_loses_no_job() -> None:
    """Other servers get what is sent from now on; what this one has accepted waits."""
    async with crew(SLOW) as made:
        futures = [made.submit(text) for text in sources(20)]
        await kill(made.workers)
        status = made.workers.status()
        assert (status.workers[0].up, status.ready, status.models) == (False, False, ("m",))
        futures += [made.submit(text) for text in sources(20)]
        check(sources(20) * 2, list(await asyncio.gather(*futures, return_exceptions=True)))
        assert made.workers.status().ready


async def test_kill_9_under_load_loses_and_repeats_nothing() -> None:
    async with crew(SLOW) as made:
        texts = sources(120)
        seen: list[int] = []
        futures = []
        for number, text in enumerate(texts):
            future = made.submit(text)
            future.add_done_callback(lambda _, number=number: seen.append(number))
            futures.append(future)
        for _ in range(3):
            await asyncio.sleep(0.3)
            await kill(made.workers)
        check(texts, list(await asyncio.gather(*futures, return_exceptions=True)))
        await asyncio.sleep(0)
        assert sorted(seen) == list(range(len(texts)))
        assert made.workers.status().restarts == 3


@pytest.mark.parametrize(
    ("poison", "kind"), [(CRASH, "poison"), (KILL, "poison"), (RAISE, "internal")]
)
async def test_a_job_that_ends_the_worker_is_refused_and_the_others_are_answered(
    poison: int, kind: str
) -> None:
    async with crew() as made:
        texts = sources(24)
        bad = (5, poison, 6)
        futures = [made.submit(text) for text in texts[:12]]
        guilty = made.submit(bad)
        futures += [made.submit(text) for text in texts[12:]]
        assert await kind_of(guilty) == kind
        check(texts, list(await asyncio.gather(*futures, return_exceptions=True)))
        restarts = made.workers.status().restarts
        assert restarts <= 3
        assert await kind_of(made.submit(bad)) == kind
        assert made.workers.status().restarts == restarts, "a convicted text was tried again"


async def test_a_hanging_step_is_killed_and_its_job_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with crew(watchdog_seconds=1.0) as made:
        texts = sources(6)
        guilty = made.submit((5, HANG, 6))
        futures = [made.submit(text) for text in texts]
        assert await kind_of(guilty) == "poison"
        check(texts, list(await asyncio.gather(*futures, return_exceptions=True)))
        assert made.workers.status().restarts == 3
    assert "hangs in a step" in caplog.text
    assert "_fail_on" in caplog.text, "the log has no stack of the hanging step"


async def test_a_hanging_job_is_refused_although_its_callers_gave_up() -> None:
    """The callers repeatedly cancel before the watchdog acts, and send the job again."""
    async with crew(watchdog_seconds=0.5) as made:
        bad = (5, HANG, 6)
        restarts = 0
        while restarts < 3:
            futures = [made.submit(bad), made.submit((1, 2))]
            await asyncio.sleep(0.1)
            futures[0].cancel()
            assert (await futures[1]).hypotheses[0].tokens == expected((1, 2))
            restarts = made.workers.status().restarts
        assert await kind_of(made.submit(bad)) == "poison"


async def test_a_worker_that_dies_without_a_cause_blames_no_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker answers no job: waiting callers get an error that no worker is available, and no
    job is refused."""
    monkeypatch.setattr(worker_supervisor, "_MAX_PAUSE", 0.0)
    async with crew(Path("dying")) as made:
        futures = [made.submit(text) for text in sources(5)]
        assert {await kind_of(future) for future in futures} == {"unavailable"}
        await unload(made.workers, "m")
        assert (await load(made.workers, "m", FAST)).error is None
        check(sources(5), [await made.submit(text) for text in sources(5)])


async def test_an_attention_job_that_ends_the_worker_is_refused() -> None:
    async with crew() as made:
        texts = sources(6)
        guilty = made.attend((1, CRASH), (2,))
        futures = [made.submit(text) for text in texts]
        with pytest.raises(WorkerFailure, match="not tried again"):
            await guilty
        check(texts, list(await asyncio.gather(*futures, return_exceptions=True)))
        assert (await made.attend((1, 2), (2,))).id


async def test_cancelling_frees_the_slot() -> None:
    async with crew(Path("1-20")) as made:
        long = tuple(range(500))
        futures = [made.submit(long) for _ in range(16)]
        await asyncio.sleep(0.2)
        for future in futures:
            future.cancel()
        answer = await made.submit((1, 2, 3))
        assert answer.hypotheses[0].tokens == expected((1, 2, 3))
        assert made.workers.status().in_flight == 0


async def test_progress_grows_to_the_translation() -> None:
    async with crew(Path("1-20")) as made:
        shown: list[tuple[int, ...]] = []
        text = tuple(range(40))
        answer = await made.submit(text, on_progress=shown.append)
        final = answer.hypotheses[0].tokens
        assert shown and all(final[: len(tokens)] == tokens for tokens in shown)
        assert [len(tokens) for tokens in shown] == sorted({len(tokens) for tokens in shown})


async def test_exceptions_of_a_progress_callback_do_not_affect_answers() -> None:
    def refuse(news: object) -> None:
        raise ValueError("no thanks")

    workers = WorkerPool(WorkerOptions(), refuse, COMMAND)
    await workers.start()
    assert (await load(workers, "m", Path("1-20"))).error is None
    text = tuple(range(30))
    answer = await workers.submit(Job(0, "m", text, GREEDY, stream=True), refuse)
    assert answer.hypotheses[0].tokens == expected(text)
    await workers.stop(0)


async def test_an_unload_ends_a_waiting_load() -> None:
    async with crew(None) as made:
        loading = asyncio.ensure_future(load(made.workers, "m", FAST))
        await asyncio.sleep(0)
        waiting = made.submit((1,))
        unloading = asyncio.ensure_future(unload(made.workers, "m"))
        await loading
        assert (await waiting).hypotheses[0].tokens == (2,)
        await unloading
        assert not made.workers.status().ready


async def test_a_model_that_was_unloaded_during_its_load_does_not_stay_in_the_worker() -> None:
    async with crew() as made:
        absent = asyncio.ensure_future(load(made.workers, "n", FAST))
        await asyncio.sleep(0)
        await unload(made.workers, "n")
        assert (await absent).error == "The model was unloaded."
        # The worker loads one model after the other, so it has answered for "n" before it loads
        # "o".
        assert (await load(made.workers, "o", FAST)).error is None
        assert made.workers.status().models == ("m", "o")


def test_workers_do_not_outlive_the_api_process() -> None:
    program = (
        "import asyncio, sys; sys.path[:0] = sys.argv[1:]\n"
        "from pathlib import Path\n"
        "from tests.support.engine.fake_worker import COMMAND\n"
        "from tests.support.engine.loading import load\n"
        "from server.engine.client.worker_pool import WorkerPool\n"
        "from server.engine.ipc.options import WorkerOptions\n"
        "async def main():\n"
        "    workers = WorkerPool(WorkerOptions(), lambda stats: None, COMMAND)\n"
        "    await workers.start()\n"
        "    await load(workers, 'm', Path('1'))\n"
        "    print(workers.status().workers[0].pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    arguments = [sys.executable, "-c", program, str(Path(__file__).parents[2])]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        process.kill()
    for _ in range(3_000):
        if not Path(f"/proc/{worker}").exists():
            return
        time.sleep(0.02)
    pytest.fail("the worker lives on")


async def test_bad_jobs_get_a_reason() -> None:
    async with crew() as made:
        assert await kind_of(made.submit(model="n", source=(1,))) == "unknown_model"
        assert await kind_of(made.submit((REFUSED,))) == "invalid"
        with pytest.raises(
            WorkerFailure, match=r"32 hypotheses.*beam_size.*alternatives"
        ) as caught:
            await made.submit((1,), DecodingOptions(beam_size=32))
        assert caught.value.kind == "invalid"


async def test_a_model_that_is_loaded_again_while_it_is_unloaded_stays() -> None:
    async with crew(SLOW) as made:
        texts = sources(30)
        futures = [made.submit(text) for text in texts]
        unloading = asyncio.ensure_future(unload(made.workers, "m"))
        await asyncio.sleep(0)
        assert (await load(made.workers, "m", SLOW)).error is None
        check(texts, list(await asyncio.gather(*futures, return_exceptions=True)))
        await unloading
        assert (await made.submit((1,))).hypotheses[0].tokens == (2,)


async def test_a_model_that_cannot_be_loaded_gives_an_error_and_the_others_serve() -> None:
    async with crew() as made:
        assert made.workers.status().ready
        assert (await load(made.workers, "n", Path("absent"))).error == "There is no such folder."
        assert (await load(made.workers, "n", Path("crash"))).error is not None
        assert (await made.submit((1,))).hypotheses[0].tokens == (2,)
        assert await kind_of(made.submit(model="n", source=(1,))) == "unknown_model"
        assert set(made.workers.status().errors) == {"n"}
        assert made.workers.status().ready


async def test_the_next_start_of_each_device_is_told_how_often_a_load_ended_it() -> None:
    """Each of three devices ends at its first load; together they do not use up the attempts of the
    model."""
    async with crew(None, threads=3) as made:
        await until(lambda: sum(worker.up for worker in made.workers.status().workers) == 3)
        assert (await load(made.workers, "m", Path("crash-0"))).error is None
        assert made.workers.status().restarts == 3


async def test_a_load_that_ends_the_worker_under_load_costs_no_job() -> None:
    async with crew(SLOW) as made:
        texts = [tuple(range(100))]
        futures = [made.submit(text) for text in texts]
        assert (await load(made.workers, "n", Path("late"))).error is not None
        check(texts, list(await asyncio.gather(*futures, return_exceptions=True)))


async def test_unloading_waits_for_accepted_jobs() -> None:
    async with crew(SLOW) as made:
        texts = sources(30)
        futures = [made.submit(text) for text in texts]
        unloading = asyncio.ensure_future(unload(made.workers, "m"))
        await asyncio.sleep(0)
        assert await kind_of(made.submit((1,))) == "unknown_model"
        check(texts, list(await asyncio.gather(*futures, return_exceptions=True)))
        await unloading
        assert made.workers.status().models == ()


async def test_several_devices_share_jobs_and_crash_history() -> None:
    async with crew(SLOW, threads=3) as made:
        await until(lambda: sum(worker.up for worker in made.workers.status().workers) == 3)
        await load(made.workers, "n", SLOW)
        texts = sources(90)
        futures = [made.submit(model="n", source=text) for text in texts]
        workers = made.workers.status().workers
        assert len(workers) == 3 and all(worker.jobs for worker in workers)
        await asyncio.sleep(0.1)
        await kill(made.workers, index=1)
        check(texts, list(await asyncio.gather(*futures, return_exceptions=True)))


async def test_a_model_that_one_device_cannot_load_is_served_by_the_others() -> None:
    async with crew(None, threads=3) as made:
        await until(lambda: sum(worker.up for worker in made.workers.status().workers) == 3)
        assert (await load(made.workers, "m", Path("refused"))).error is None
        assert made.workers.status().ready and not made.workers.status().errors
        texts = sources(30)
        check(texts, list(await asyncio.gather(*map(made.submit, texts))))
        await kill(made.workers, index=0)
        check(texts, list(await asyncio.gather(*map(made.submit, texts))))
        assert (await load(made.workers, "n", Path("absent"))).error == "There is no such folder."


async def test_a_gpu_that_is_lost_is_left_out() -> None:
    async with crew(threads=3, device="cpu") as made:
        await until(lambda: sum(worker.up for worker in made.workers.status().workers) == 2)
        texts = sources(30)
        check(texts, list(await asyncio.gather(*map(made.submit, texts))))
        for index in (0, 1):  # each worker stays with its GPU
            await kill(made.workers, index=index)
            check(texts, list(await asyncio.gather(*map(made.submit, texts))))
        status = made.workers.status()
        assert status.ready and not status.no_device and not status.workers[2].up


async def test_stopping_finishes_accepted_jobs() -> None:
    texts = sources(30)
    async with crew(SLOW, grace=30) as made:
        futures = [made.submit(text) for text in texts]
    check(texts, [future.result() for future in futures])
    assert await kind_of(made.submit((1,))) == "cancelled"


async def test_stopping_without_grace_fails_accepted_jobs() -> None:
    async with crew(Path("1-500")) as made:
        futures = [made.submit(text) for text in sources(30)]
    assert {await kind_of(future) for future in futures} == {"cancelled"}


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    "command", [(sys.executable, "-c", "raise SystemExit(3)"), ("/no/such/program",)]
)
async def test_a_worker_that_never_starts_leaves_no_caller_waiting(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_supervisor, "_MAX_PAUSE", 0.0)
    before = open_files()
    workers = WorkerPool(WorkerOptions(), lambda stats: None, command)
    await workers.start()
    loading = asyncio.ensure_future(load(workers, "m", FAST))
    await asyncio.sleep(0)
    future = workers.submit(Job(0, "m", (1,), GREEDY))
    assert (await loading).error is not None
    assert await kind_of(future) == "unavailable"
    assert not workers.status().ready
    await workers.stop(0)
    # Transports close their pipes in the next iterations of the loop.
    await until(lambda: open_files() <= before)


async def test_every_future_resolves_in_random_failures() -> None:
    """Crashes, kills, errors, cancels, loads and unloads at random: nobody hangs, nobody is wrong,
    nothing is left behind."""

    answered = [0]

    async def client(workers: WorkerPool, number: int) -> list[str]:
        rng = random.Random(number)
        outcomes: list[str] = []
        for _ in range(25):
            text = tuple(rng.randrange(1000) for _ in range(rng.randint(1, 15)))
            bad = rng.random() < 0.01
            if bad:
                text = (*text, rng.choice((CRASH, RAISE)), 5)
            options = DecodingOptions(beam_size=rng.choice((1, 1, 4)))
            future = workers.submit(Job(0, "m", text, options, number % 2, str(number)))
            if rng.random() < 0.05:
                await asyncio.sleep(0.02)
                future.cancel()
            try:
                answer = await future
            except asyncio.CancelledError:
                outcomes.append("cancelled")
            except WorkerFailure as failure:
                assert bad, failure
                outcomes.append(failure.kind)
            else:
                assert answer.hypotheses[0].tokens == expected(text)
                answered[0] += 1
                outcomes.append("translated")
        return outcomes

    async def fate(workers: WorkerPool) -> None:
        rng = random.Random(3)
        while True:
            before = answered[0]
            while answered[0] < before + 50:  # noqa: ASYNC110  fate strikes those who get somewhere
                await asyncio.sleep(0.01)
            await load(workers, "n", Path(rng.choice(("1-1", "absent"))))
            await kill(workers)
            await unload(workers, "n")

    async with crew(Path("1-1")) as made:
        misfortune = asyncio.ensure_future(fate(made.workers))
        outcomes = await asyncio.gather(*(client(made.workers, number) for number in range(12)))
        misfortune.cancel()
        assert sum(map(len, outcomes)) == 12 * 25
        status = made.workers.status()
        assert status.in_flight == 0 and status.restarts > 0

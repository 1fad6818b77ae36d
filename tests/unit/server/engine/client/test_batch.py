"""Many jobs in one task: every number has its result, in any order of answers, and nothing is left
behind."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from server.engine.client import batch
from server.engine.client.batch import Batch
from server.engine.client.engine_client import InFlight
from server.engine.client.status import WorkerFailure
from server.engine.ipc.messages import JobResult
from server.errors import TranslationFailed
from server.work_threads import LoopTurns


class Engine:
    """Answers jobs in a random order, some with a failure; knows which were left."""

    def __init__(self, random_: random.Random, failing: int = -1) -> None:
        self.random, self.failing = random_, failing
        self.open: dict[int, InFlight] = {}
        self.left: set[int] = set()
        self.most = 0

    def send(self, number: int) -> InFlight | None:
        if self.random.random() < 0.1:
            return None
        item = InFlight(number, asyncio.get_running_loop().create_future())
        self.open[number] = item
        self.most = max(self.most, len(self.open))
        return item

    def leave(self, item: InFlight) -> None:
        self.left.add(item.key)  # type: ignore[arg-type]

    async def answer(self) -> None:
        while True:
            for number in self.random.sample(
                sorted(self.open), min(len(self.open), self.random.randint(0, 9))
            ):
                item = self.open.pop(number)
                if number == self.failing:
                    item.future.set_exception(WorkerFailure("internal", "It failed."))
                else:
                    item.future.set_result(JobResult(number))
            await asyncio.sleep(0)


def run(
    seed: int, failing: int = -1, cancel_after: int = 10**9
) -> tuple[Engine, list[int] | None, list[Any]]:
    generator = random.Random(seed)
    engine = Engine(generator, failing)
    count, reported, begun = generator.randint(1, 200), list[Any](), set[int]()

    async def finish(number: int, answer: JobResult | None) -> int:
        assert answer is None or answer.id == number
        begun.add(number)
        try:
            for _ in range(generator.choice((0, 0, 0, 1, 5))):
                await asyncio.sleep(0)
            return number + 1
        finally:
            try:
                await asyncio.sleep(0)
            finally:
                begun.remove(number)

    async def main() -> list[int] | None:
        answering = asyncio.create_task(engine.answer())
        orders = [range(count)[first::3] for first in range(3)]
        report = None if failing >= 0 else lambda *told: reported.append(told)
        turns = LoopTurns() if seed % 2 else None  # of a document, or not
        work = Batch(engine, count, engine.send, finish, report, orders)  # type: ignore[arg-type]
        task = asyncio.create_task(work.run(turns))
        for _ in range(cancel_after):
            if task.done():
                break
            await asyncio.sleep(0)
        task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            return None
        finally:
            answering.cancel()
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert not begun

    return engine, asyncio.run(main()), reported


@pytest.mark.parametrize("seed", range(20))
def test_every_number_has_its_result_and_each_group_is_reported_in_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(batch, "MOST", 30)
    engine, results, reported = run(seed)
    assert results == list(range(1, len(results or ()) + 1))
    assert engine.most <= 30
    assert not engine.left
    for group in range(3):
        told = [each for each in reported if each[0] == group]
        expected = [
            (group, place, number + 1)
            for place, number in enumerate(range(len(results or ()))[group::3])
        ]
        assert told == expected


@pytest.mark.parametrize("seed", range(20))
def test_what_is_in_progress_is_left_at_a_cancellation_and_at_an_error(seed: int):
    engine, results, _ = run(seed, cancel_after=seed)
    assert results is not None or engine.left >= set(engine.open)
    with pytest.raises(TranslationFailed):  # unless its number needs no job
        for further in range(50):
            run(1_000 * further + seed, failing=0)

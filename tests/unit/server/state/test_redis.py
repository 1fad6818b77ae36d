"""The connection to Redis: an outage delays few operations and ends by itself, and nothing secret is logged."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from server.errors import StateUnreachable
from server.state.redis import BEAT_SECONDS, FAILURES, RedisState, Script, connect, ping
from tests.support.ports import free_port
from tests.unit.server.conftest import running_redis


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[RedisState]:
    state = RedisState(connect(url))
    await state.start()
    yield state
    await state.stop()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  the state has no event for this
            await asyncio.sleep(0.01)


@asynccontextmanager
async def silent_server() -> AsyncIterator[tuple[str, list[bytes]]]:
    """Accepts connections and never answers, like a stopped Redis. Yields its address and what it received."""
    received: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(10_000):
            received.append(data)
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}", received


def test_operations_return_what_redis_answers(redis):
    async def scenario() -> None:
        async with opened(redis) as state:
            await state.run(lambda client: client.set("attentive:x", "1"))
            assert await state.run(lambda client: client.get("attentive:x")) == b"1"
            assert (state.up, state.errors) == (True, 0)

    asyncio.run(scenario())


def test_commands_and_scripts_share_round_trips(redis):
    script = Script("return redis.call('INCRBY', KEYS[1], ARGV[1])")

    async def scenario() -> None:
        async with opened(redis) as state:
            batches = []
            run = state.run
            state._batches._send = lambda operation: batches.append(1) or run(operation)
            answers = await asyncio.gather(
                *[state.evaluate(script, ["attentive:x"], 2) for _ in range(50)],
                *[state.execute("PING") for _ in range(50)],
            )
            assert sorted(answers[:50]) == list(range(2, 102, 2))
            assert answers[50:] == [True] * 50
            assert len(batches) == 2  # the script was unknown
            assert await state.execute("GET", "attentive:x") == b"100"

    asyncio.run(scenario())


def test_commands_that_wait_for_a_batch_fail_with_it(monkeypatch):
    monkeypatch.setattr(
        "server.state.redis.TIMEOUT_SECONDS", 1.0
    )  # the others have to be sent before the first one fails

    async def scenario() -> None:
        async with silent_server() as (url, received):
            state = RedisState(connect(url))
            first = asyncio.create_task(state.execute("FIRST"))
            await until(lambda: received)
            rest = [asyncio.create_task(state.execute("SECOND")) for _ in range(50)]
            answers = await asyncio.gather(first, *rest, return_exceptions=True)
            assert {type(answer) for answer in answers} == {StateUnreachable}
            assert (len(received), state.errors) == (1, 1)
            await state.stop()

    asyncio.run(scenario())


def test_a_command_that_cannot_be_sent_fails_instead_of_waiting(redis):
    async def scenario() -> None:
        async with opened(redis) as state, asyncio.timeout(10):
            with pytest.raises(StateUnreachable):
                await state.execute("GET", "\ud800")
            assert await state.execute("PING")

    asyncio.run(scenario())


def test_a_name_that_is_looked_up_longer_than_the_time_limit_leaves_no_error():
    """With uvloop, as the server runs."""
    reported = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        state = RedisState(connect("redis://nowhere.invalid:1"))
        for _ in range(FAILURES):
            with pytest.raises(StateUnreachable):
                await state.run(ping, seconds=0.0001)
        for _ in range(2 * FAILURES):  # these end after the look-ups of the state
            with pytest.raises(OSError):
                await loop.getaddrinfo("nowhere.invalid", 1)
        await state.stop()
        gc.collect()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
    assert reported == []


def test_the_name_of_a_host_may_have_several_addresses(redis, monkeypatch):
    async def found(host: str, port: int) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]  # Redis listens on the second only

    monkeypatch.setattr("server.state.connections.addresses", found)

    async def scenario() -> None:
        async with opened(redis.replace("127.0.0.1", "redis.example")) as state:
            assert await state.execute("PING")

    asyncio.run(scenario())


def test_after_two_time_outs_operations_fail_without_waiting():
    async def scenario() -> None:
        async with silent_server() as (url, received):
            state = RedisState(connect(url))  # without probes
            for _ in range(50):
                with pytest.raises(StateUnreachable):
                    await state.run(ping, seconds=0.02)
            assert len(received) <= FAILURES
            assert (state.up, state.errors) == (False, FAILURES)
            await state.stop()

    asyncio.run(scenario())


def test_an_operation_that_its_caller_cancels_is_no_failure():
    async def scenario() -> None:
        async with silent_server() as (url, received):
            state = RedisState(connect(url))
            for count in range(1, FAILURES + 2):
                operation = asyncio.create_task(state.run(ping, seconds=60))
                await until(lambda wanted=count: len(received) == wanted)
                operation.cancel()
                await asyncio.gather(operation, return_exceptions=True)
            assert (state.up, state.errors) == (True, 0)
            await state.stop()

    asyncio.run(scenario())


@pytest.mark.slow
def test_the_connection_recovers_by_itself(tmp_path, patient):
    """Redis starts after the server, stops, and starts again."""

    async def scenario() -> None:
        port, done = free_port(), []

        async def task() -> None:
            done.append(await state.run(lambda client: client.incr("attentive:x")))

        state = RedisState(connect(f"redis://127.0.0.1:{port}"))
        state.at_every_beat(task)
        await state.start()
        await until(lambda: not state.up)
        assert done == []
        for _ in range(2):
            with running_redis(tmp_path, port):
                before = len(done)
                await until(lambda before=before: len(done) > before)
                assert state.up
                assert await state.run(lambda client: client.exists("attentive:x")) == 1
            await until(lambda: not state.up)
        await state.stop()

    asyncio.run(scenario())


def test_a_task_that_fails_does_not_end_the_others(redis, monkeypatch):
    monkeypatch.setattr("server.state.redis.BEAT_SECONDS", BEAT_SECONDS / 50)
    beats = []

    async def fails() -> None:
        raise RuntimeError

    async def refused() -> None:
        raise StateUnreachable

    async def counts() -> None:
        beats.append(1)

    async def scenario() -> None:
        state = RedisState(connect(redis))
        state.at_every_beat(fails)
        state.at_every_beat(refused)
        state.at_every_beat(counts)
        await state.start()
        await until(lambda: len(beats) >= 3)
        await state.stop()

    asyncio.run(scenario())


def test_a_refused_command_is_an_error_and_no_outage(redis, caplog):
    def refused(client) -> Awaitable[object]:
        pipeline = client.pipeline(transaction=False)
        pipeline.lpush("attentive:x", "hunter2")
        return pipeline.execute()

    async def scenario() -> None:
        async with opened(redis) as state:
            await state.run(lambda client: client.set("attentive:x", "1"))
            for _ in range(FAILURES + 1):
                with pytest.raises(StateUnreachable):
                    await state.run(refused)
                with pytest.raises(StateUnreachable):
                    await state.execute("LPUSH", "attentive:x", "hunter2")
            assert (state.up, state.errors) == (True, 2 * FAILURES + 2)

    asyncio.run(scenario())
    assert caplog.text.count("Redis refuses commands: ResponseError: WRONGTYPE") == 1
    assert "hunter2" not in caplog.text


def test_the_log_has_no_password(caplog):
    caplog.set_level(logging.DEBUG)

    async def scenario() -> None:
        state = RedisState(connect(f"redis://:hunter2@127.0.0.1:{free_port()}"))
        for _ in range(FAILURES):
            with pytest.raises(StateUnreachable) as error:
                await state.run(ping)
            assert "hunter2" not in str(error.value)
        await state.stop()

    asyncio.run(scenario())
    assert "cannot be reached: ConnectionError" in caplog.text
    assert "hunter2" not in caplog.text

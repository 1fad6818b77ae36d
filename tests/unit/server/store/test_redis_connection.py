"""The connection to Redis: an outage delays few operations and ends by itself, and nothing secret
is logged."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from socket import gaierror

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, OutOfMemoryError, ResponseError

from server.errors import StateUnreachable
from server.store.redis import FAILURES, RedisStore, connect, reason
from tests.support.servers.ports import free_port


def ping(client):
    return client.execute_command("PING")


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  the state has no event for this
            await asyncio.sleep(0.01)


@asynccontextmanager
async def silent_server() -> AsyncIterator[tuple[str, list[bytes]]]:
    """Accepts connections and never answers, like a stopped Redis. Yields its address and what it
    received."""
    received: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(10_000):
            received.append(data)
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}", received


async def test_after_two_time_outs_operations_fail_without_waiting():
    async with silent_server() as (url, received):
        state = RedisStore(connect(url))  # without probes
        for _ in range(50):
            with pytest.raises(StateUnreachable):
                await state.run(ping, seconds=0.02)
        assert len(received) <= FAILURES
        assert (state.up, state.errors) == (False, FAILURES)
        await state.stop()


async def test_time_that_this_process_takes_for_other_work_is_no_failure(redis):
    state, loop, busy = RedisStore(connect(redis)), asyncio.get_running_loop(), True

    def work() -> None:
        time.sleep(0.02)  # in each iteration of the event loop
        if busy:
            loop.call_soon(work)

    work()
    operations = [state.execute("SET", "attentive:x", "1", seconds=0.05) for _ in range(100)]
    await asyncio.gather(*operations)
    busy = False
    assert (state.up, state.errors) == (True, 0)
    await state.stop()


async def test_an_operation_that_its_caller_cancels_is_no_failure():
    async with silent_server() as (url, received):
        state = RedisStore(connect(url))
        for count in range(1, FAILURES + 2):
            operation = asyncio.create_task(state.run(ping, seconds=60))
            await until(lambda wanted=count: len(received) == wanted)
            operation.cancel()
            await asyncio.gather(operation, return_exceptions=True)
        assert (state.up, state.errors) == (True, 0)
        await state.stop()


async def test_a_refused_command_is_an_error_and_no_outage(redis, caplog):
    state = RedisStore(connect(redis))
    await state.execute("SET", "attentive:x", "1")
    for _ in range(FAILURES + 1):
        with pytest.raises(StateUnreachable):
            await state.execute("LPUSH", "attentive:x", "hunter2")
    assert (state.up, state.errors) == (True, FAILURES + 1)
    await state.stop()
    assert caplog.text.count("Redis refuses commands: ResponseError: WRONGTYPE") == 1
    assert "hunter2" not in caplog.text


async def test_the_log_has_no_password(caplog):
    caplog.set_level(logging.DEBUG)

    state = RedisStore(connect(f"redis://:hunter2@127.0.0.1:{free_port()}"))
    for _ in range(FAILURES):
        with pytest.raises(StateUnreachable) as error:
            await state.run(ping)
        assert "hunter2" not in str(error.value)
    await state.stop()
    assert "cannot be reached: ConnectionError" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("error", "logged"), [(gaierror(-2, "Name or service not known"), 0), (KeyError("x"), 1)]
)
def test_a_name_that_is_not_found_in_time_is_logged_once(caplog, error, logged):
    connect("redis://nowhere.invalid")
    logging.getLogger("asyncio").error("Future exception was never retrieved", exc_info=error)
    assert len(caplog.records) == logged


REFUSED = "Error 111 connecting to redis:6379. Connection refused."


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (TimeoutError(), "TimeoutError: no answer in time"),
        (RedisConnectionError(REFUSED), f"ConnectionError: {REFUSED}"),
        (RedisConnectionError("Connection closed by server."), "ConnectionError: Connection"),
        (OutOfMemoryError("command SET 'a text'"), "OutOfMemoryError: command"),
        (ResponseError("Error in 'a text'"), "ResponseError: Error"),
        (InvalidResponse("Protocol Error: b'a text'"), "InvalidResponse: Protocol"),
    ],
)
def test_the_log_says_why_redis_does_not_answer_and_has_no_text(
    error: Exception, logged: str
) -> None:
    assert reason(error) == logged

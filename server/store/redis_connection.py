"""The connection to Redis or Valkey: short time-outs, and a circuit breaker, so that an outage does not delay requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from socket import gaierror
from typing import Any, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from server.errors import StateUnreachable
from server.store.interface import Store

log = logging.getLogger(__name__)
Result = TypeVar("Result")
TIMEOUT_SECONDS = 0.25
"""Longest time of one operation, with the connection that it may need."""
FULL = "The server's shared state (Redis) is full; its operator must give it more memory (maxmemory)."
FAILURES = 2
"""Consecutive failures that open the circuit breaker."""
CONNECTIONS = 16
REFUSAL_LOG_SECONDS = 60.0
"""Time between two log lines about refused commands."""


class RedisConnection(Store):
    """The part of a RedisStore that limits and counts what can go wrong.

    `up` is False while the circuit breaker is open: every operation then fails at once. It opens after FAILURES
    consecutive failures, and closes at the next probe that succeeds. Only `start` begins the probes, in the event loop
    that serves. `errors` counts failed operations.
    """

    def __init__(self, client: Redis) -> None:
        super().__init__()
        self.errors = 0
        self._client = client
        self._failures = 0
        self._next_refusal_logged = 0.0

    async def execute(self, *command: Any, seconds: float | None = None) -> Any:
        """Returns the answer to a command. Raises StateUnreachable as `run` does."""
        return await self.run(lambda client: client.execute_command(*command), seconds)  # type: ignore[no-untyped-call]

    async def run(self, operation: Callable[[Redis], Awaitable[Result]], seconds: float | None = None) -> Result:
        """Returns the result of `operation(client)`, such as that of a pipeline.

        Raises StateUnreachable where Redis cannot be reached, does not answer within `seconds` (TIMEOUT_SECONDS) or
        refuses the command, and at once while the circuit breaker is open.
        """
        if not self.up:
            raise StateUnreachable
        return await self._run(operation, TIMEOUT_SECONDS if seconds is None else seconds)

    async def _run(self, operation: Callable[[Redis], Awaitable[Result]], seconds: float) -> Result:
        try:
            async with asyncio.timeout(seconds):
                result = await operation(self._client)
        except (RedisConnectionError, RedisTimeoutError, OSError) as error:  # OSError includes TimeoutError
            self._count_failure(error)
            raise StateUnreachable from error
        except RedisError as error:  # Redis answered: it is out of memory, read-only, or the user may not do this
            self._count_refusal(error)
            raise (StateUnreachable(FULL) if isinstance(error, OutOfMemoryError) else StateUnreachable()) from error
        self._failures = 0
        return result

    def _count_failure(self, error: Exception) -> None:
        self.errors += 1
        self._failures += 1
        if self.up and self._failures >= FAILURES:
            self.up = False
            log.warning("the shared state (Redis) cannot be reached: %s", reason(error))

    def _count_refusal(self, error: Exception) -> None:
        self.errors += 1
        now = asyncio.get_running_loop().time()
        if now >= self._next_refusal_logged:
            self._next_refusal_logged = now + REFUSAL_LOG_SECONDS
            log.warning("Redis refuses commands: %s", reason(error))

    async def _beat(self) -> None:
        try:
            await self._run(lambda client: client.execute_command("PING"), TIMEOUT_SECONDS)  # type: ignore[no-untyped-call]
        except StateUnreachable:
            return
        if not self.up:
            self.up = True
            log.info("the shared state (Redis) can be reached again")
        await super()._beat()

    async def _close(self) -> None:
        with contextlib.suppress(RedisError, OSError, TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._client.aclose()


def connect(url: str) -> Redis:
    """Returns a client that connects at its first command. Raises ValueError or TypeError for an invalid address."""
    logging.getLogger("asyncio").addFilter(is_not_late_lookup)
    # `_run` limits the time of an operation as a whole: time-outs and retries of the client would add up.
    pool: Any = BlockingConnectionPool.from_url(
        url,
        max_connections=CONNECTIONS,
        timeout=None,
        protocol=2,
        socket_timeout=None,
        socket_connect_timeout=None,
        retry=Retry(NoBackoff(), 0),
    )
    return Redis.from_pool(pool)


def is_not_late_lookup(record: logging.LogRecord) -> bool:
    """Returns False for what uvloop logs when a name is not found after the time limit of a connection, whose failure was
    counted then."""
    return not (record.exc_info and isinstance(record.exc_info[1], gaierror))


def reason(error: Exception) -> str:
    """Returns the kind of an error for the log, with why there is no connection, or with the first word of the message of
    Redis, such as MISCONF where the disk is full. The rest may contain arguments of the command."""
    text = str(error).partition(" ")[0] or "no answer in time"
    if text == "Error" and isinstance(error, RedisConnectionError):
        text = str(error)  # of the connection: an address and the words of the operating system
    return f"{type(error).__name__}: {text}"

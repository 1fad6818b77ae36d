"""The connection to Redis or Valkey: short time-outs, and a circuit breaker, so that an outage does not delay requests.

All parts of a server use one `RedisState`. Keys in Redis are named `attentive:PART:VERSION:...`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from server.errors import StateUnreachable
from server.state.batches import Batches
from server.state.connections import PlainConnection, TLSConnection

log = logging.getLogger(__name__)
Result = TypeVar("Result")
TIMEOUT_SECONDS = 0.25
"""Longest time of one operation, with the connection that it may need."""
BEAT_SECONDS = 0.5
"""Time between two beats: a probe, and the tasks of the parts."""
FAILURES = 2
"""Consecutive failures that open the circuit breaker."""
CONNECTIONS = 16
REFUSAL_LOG_SECONDS = 60.0
"""Time between two log lines about refused commands."""
CODES = ("MISCONF", "NOREPLICAS", "WRONGTYPE")
"""Words for which the library has no class; MISCONF is a disk that is full. Redis writes them before its message."""


class Script:
    """A script in Lua, which Redis runs as one step."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class RedisState:
    """Redis as several servers share it.

    `up` is False while the circuit breaker is open: every operation then fails at once. It opens after FAILURES
    consecutive failures, and closes at the next probe that succeeds. Only `start` begins the probes, in the event loop
    that serves. `errors` counts failed operations.
    """

    def __init__(self, client: Redis) -> None:
        self.up = True
        self.errors = 0
        self._client = client
        self._batches = Batches(self.run)
        self._failures = 0
        self._next_refusal_logged = 0.0
        self._tasks: list[Callable[[], Awaitable[None]]] = []
        self._beating: asyncio.Task[None] | None = None

    async def execute(self, *command: Any) -> Any:
        """Returns the answer to a small command. Concurrent calls share a round trip. Raises StateUnreachable as `run`
        does."""
        if not self.up:
            raise StateUnreachable
        answer = await self._batches.execute(command)
        if isinstance(answer, RedisError):
            self._count_refusal(answer)
            raise StateUnreachable from answer
        return answer

    async def evaluate(self, script: Script, keys: Sequence[str], *arguments: Any) -> Any:
        """Returns the answer of a script like `execute`."""
        if not self.up:
            raise StateUnreachable
        rest = (len(keys), *keys, *arguments)
        answer = await self._batches.execute(("EVALSHA", script.digest, *rest))
        if isinstance(answer, NoScriptError):  # Redis was restarted
            return await self.execute("EVAL", script.text, *rest)
        if isinstance(answer, RedisError):
            self._count_refusal(answer)
            raise StateUnreachable from answer
        return answer

    async def run(self, operation: Callable[[Redis], Awaitable[Result]], seconds: float | None = None) -> Result:
        """Returns the result of `operation(client)`, such as that of a pipeline. Uses a separate connection, for large values.

        Raises StateUnreachable where Redis cannot be reached, does not answer within `seconds` (TIMEOUT_SECONDS) or
        refuses the command, and at once while the circuit breaker is open.
        """
        if not self.up:
            raise StateUnreachable
        return await self._run(operation, TIMEOUT_SECONDS if seconds is None else seconds)

    def at_every_beat(self, task: Callable[[], Awaitable[None]]) -> None:
        """Runs a task at the start, then twice a second while Redis can be reached, and once more at the stop. The task
        may raise StateUnreachable."""
        self._tasks.append(task)

    async def start(self) -> None:
        """Makes the first probe and starts the others in the background. An outage is no error."""
        await self._beat()
        self._beating = asyncio.create_task(self._beat_forever())

    async def stop(self) -> None:
        """Runs the tasks a last time and closes the connections."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
            if self.up:
                await self._run_tasks()
        with contextlib.suppress(RedisError, OSError, TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._client.aclose()

    async def _run(self, operation: Callable[[Redis], Awaitable[Result]], seconds: float) -> Result:
        try:
            async with asyncio.timeout(seconds):
                result = await operation(self._client)
        except (RedisConnectionError, RedisTimeoutError, OSError) as error:  # OSError includes TimeoutError
            self._count_failure(error)
            raise StateUnreachable from error
        except RedisError as error:  # Redis answered: it is out of memory, read-only, or the user may not do this
            self._count_refusal(error)
            raise StateUnreachable from error
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

    async def _beat_forever(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            await self._beat()

    async def _beat(self) -> None:
        try:
            await self._run(ping, TIMEOUT_SECONDS)
        except StateUnreachable:
            return
        if not self.up:
            self.up = True
            log.info("the shared state (Redis) can be reached again")
        await self._run_tasks()

    async def _run_tasks(self) -> None:
        for task in self._tasks:
            try:
                await task()
            except StateUnreachable:
                if not self.up:
                    return
            except Exception:  # a fault of one task must not end the probes
                log.exception("a task of the shared state failed")


def connect(url: str) -> Redis:
    """Returns a client that connects at its first command. Raises ValueError or TypeError for an invalid address."""
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
    pool.connection_class = TLSConnection if issubclass(pool.connection_class, SSLConnection) else PlainConnection
    return Redis.from_pool(pool)


async def ping(client: Redis) -> None:
    """Probes whether Redis answers."""
    answer: Any = client.ping()
    await answer


def reason(error: Exception) -> str:
    """Returns the kind of an error for the log, without its message, which may contain arguments of the command."""
    cause = error.__cause__ or error.__context__
    system = cause.strerror if isinstance(cause, OSError) else None
    code = next((code for code in CODES if code in str(error)), None)
    return ": ".join(filter(None, (type(error).__name__, system, code)))

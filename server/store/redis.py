"""RedisStore: the store in Redis or Valkey, which several servers share.

A table is a hash `attentive:TABLE:1` with its version beside it, a collection a sorted set of its
ids and a key for each record. The number is the version of the formats.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from socket import gaierror
from typing import Any, TypeVar

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, OutOfMemoryError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from server.errors import StateUnreachable
from server.store.interface import Bounds, Changes, Store

log = logging.getLogger(__name__)
Result = TypeVar("Result")
TIMEOUT_SECONDS = 0.25
"""Longest time of an operation and the connection that it may need, but not of the wait for one of
the CONNECTIONS."""
TICKS = 10
"""Parts of the time of an operation, each at least an iteration of the event loop: the time that this
process takes for other requests is no fault of Redis."""
FULL = (
    "The server's shared state (Redis) is full; its operator must give it more memory (maxmemory)."
)
FAILURES = 2
"""Consecutive failures that open the circuit breaker."""
REMEDY = "--state names it; limits and results are those of this server alone meanwhile"
CONNECTIONS = 16
REFUSAL_LOG_SECONDS = 60.0
"""Time between two log lines about refused commands."""


class RedisConnection(Store):
    """The connection of a RedisStore: time limits, failures, and a circuit breaker.

    `up` is False while the circuit breaker is open: every operation then fails at once. It opens
    after FAILURES consecutive failures, and closes after a successful probe. `start` begins the
    probes. `errors` counts failed operations.
    """

    def __init__(self, client: Redis) -> None:
        super().__init__()
        self.errors = 0
        self._client = client
        self._failures = 0
        self._next_refusal_logged = 0.0
        self._free = asyncio.Semaphore(CONNECTIONS)

    async def execute(self, *command: Any, seconds: float | None = None) -> Any:
        """Returns the answer to a command. Raises as `run`."""
        return await self.run(lambda client: client.execute_command(*command), seconds)  # type: ignore[no-untyped-call]

    async def run(
        self, operation: Callable[[Redis], Awaitable[Result]], seconds: float | None = None
    ) -> Result:
        """Returns the result of `operation(client)`, such as a pipeline. Raises StateUnreachable if
        Redis cannot be reached, does not answer within `seconds` (TIMEOUT_SECONDS) or refuses the
        command, and at once while the circuit breaker is open."""
        if self.up:
            async with self._free:
                if self.up:
                    return await self._run(
                        operation, TIMEOUT_SECONDS if seconds is None else seconds
                    )
        raise StateUnreachable

    async def _run(self, operation: Callable[[Redis], Awaitable[Result]], seconds: float) -> Result:
        try:
            async with limit(seconds):
                result = await operation(self._client)
        except (RedisConnectionError, RedisTimeoutError, OSError) as error:
            # OSError includes TimeoutError.
            self._count_failure(error)
            raise StateUnreachable from error
        except RedisError as error:
            # Redis answered: it is out of memory, read-only, or the user may not do this.
            self._count_refusal(error)
            raise (
                StateUnreachable(FULL)
                if isinstance(error, OutOfMemoryError)
                else StateUnreachable()
            ) from error
        self._failures = 0
        return result

    def _count_failure(self, error: Exception) -> None:
        self.errors += 1
        self._failures += 1
        if self.up and self._failures >= FAILURES:
            self.up = False
            log.warning("the shared state (Redis) cannot be reached: %s; %s", reason(error), REMEDY)

    def _count_refusal(self, error: Exception) -> None:
        self.errors += 1
        now = asyncio.get_running_loop().time()
        if now >= self._next_refusal_logged:
            self._next_refusal_logged = now + REFUSAL_LOG_SECONDS
            log.warning("Redis refuses commands: %s; its log has the cause", reason(error))

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


@asynccontextmanager
async def limit(seconds: float) -> AsyncIterator[None]:
    """Raises TimeoutError in the block after `seconds` and at least TICKS iterations of the loop."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as timeout:
        timer: asyncio.TimerHandle

        def tick(left: int) -> None:
            nonlocal timer
            if left:
                timer = loop.call_later(seconds / TICKS, tick, left - 1)
            else:
                timeout.reschedule(loop.time())

        tick(TICKS)
        try:
            yield
        finally:
            timer.cancel()


def connect(url: str) -> Redis:
    """Returns a client, which connects at its first command. Raises ValueError or TypeError for an
    invalid address."""
    logging.getLogger("asyncio").addFilter(is_not_late_lookup)
    # `_run` limits the time of an operation as a whole: time-outs and retries of the client would
    # add up.
    pool: Any = ConnectionPool.from_url(
        url,
        max_connections=CONNECTIONS + 1,  # one is that of the probes
        protocol=2,
        socket_timeout=None,
        socket_connect_timeout=None,
        retry=Retry(NoBackoff(), 0),
    )
    return Redis.from_pool(pool)


def is_not_late_lookup(record: logging.LogRecord) -> bool:
    """Returns False for what uvloop logs when a name is not found after the time limit of an
    operation."""
    return not (record.exc_info and isinstance(record.exc_info[1], gaierror))


def reason(error: Exception) -> str:
    """Returns an error for the log: its kind, and why there is no connection or the first word of
    Redis, such as MISCONF. Further words may contain arguments of the command."""
    text = str(error).partition(" ")[0] or "no answer in time"
    if isinstance(error, AuthenticationError):
        text = "the address lacks the user and password of Redis, or has wrong ones"
    elif text == "Error" and isinstance(error, RedisConnectionError):
        text = str(error)  # of the connection: an address and the words of the operating system
    return f"{type(error).__name__}: {text}"


LARGE_SECONDS = 2.0
"""Time limit of operations with large records or that no request waits for."""

ADD = """
local size, bytes, life, prefix = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + clock[2] / 1000
local held = tonumber(redis.call('GET', KEYS[2]) or 0)
local function forget(entry)
  local id, length = string.match(entry, '(%S+) (%d+)')
  redis.call('ZREM', KEYS[1], entry)
  redis.call('DEL', prefix .. id)
  held = held - length
end
for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - life, 'LIMIT', 0, 1000)) do forget(entry) end
for i = 5, #ARGV, 2 do
  local key, length = prefix .. ARGV[i], #ARGV[i + 1]
  local before = ARGV[i] .. ' ' .. redis.call('STRLEN', key)
  if redis.call('ZSCORE', KEYS[1], before) then forget(before) end
  redis.call('SET', key, ARGV[i + 1], 'PX', life)
  held = held + length * redis.call('ZADD', KEYS[1], now + i / 2000, ARGV[i] .. ' ' .. length)
end
while redis.call('ZCARD', KEYS[1]) > size or held > bytes do
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  if not oldest then held = 0 break end
  forget(oldest)
end
redis.call('SET', KEYS[2], held, 'PX', life)
redis.call('PEXPIRE', KEYS[1], life)
"""
"""Adds or replaces records, and removes those beyond the bounds, by the clock of Redis. KEYS: the
index, a sorted set of "id bytes" scored by the time of writing in milliseconds, and the total
bytes. Each record of a call is a microsecond younger than the one before. ARGV: most records, most
bytes, life in milliseconds, prefix of the keys; then id and value of each record."""

CHARGE = """
for i, key in ipairs(KEYS) do
  if tonumber(redis.call('GET', key) or 0) + ARGV[2 * i + 1] > tonumber(ARGV[2 * i]) then
    return {i, redis.call('PTTL', key)}
  end
end
for i, key in ipairs(KEYS) do
  local amount = tonumber(ARGV[2 * i + 1])
  if redis.call('INCRBY', key, amount) == amount then redis.call('PEXPIRE', key, ARGV[1]) end
end
return {0, 0}
"""
"""Counts all amounts or none. A window begins with its first amount, by the clock of Redis."""

INCREASE = """
for i = 1, #ARGV, 3 do
  local limit = tonumber(ARGV[i + 2])
  if limit and tonumber(redis.call('HGET', KEYS[1], ARGV[i]) or 0) + ARGV[i + 1] > limit then return ARGV[i] end
end
for i = 1, #ARGV, 3 do redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1]) end
"""
"""Adds to the numbers of a hash, all or none. ARGV: id, amount and limit of each; the limit may be
empty."""


class RedisStore(RedisConnection):
    """A Store that also counts limits over several servers, and reads many records together."""

    shared = True
    permanent = True

    def __init__(self, client: Redis) -> None:
        super().__init__(client)
        self._add = client.register_script(ADD)
        self._charge = client.register_script(CHARGE)
        self._increase = client.register_script(INCREASE)

    async def version(self, table: str) -> str:
        return (await self.execute("GET", version_of(table)) or b"").decode()

    async def read(self, table: str, id: str) -> bytes | None:
        value: bytes | None = await self.execute("HGET", name_of(table), id, seconds=LARGE_SECONDS)
        return value

    async def read_all(self, table: str) -> dict[str, bytes]:
        pairs: Any = await self.run(lambda client: client.hgetall(name_of(table)), LARGE_SECONDS)
        return {id.decode(): value for id, value in pairs.items()}

    async def write(self, changes: Changes, versions: Mapping[str, str] | None = None) -> bool:
        expected = {version_of(table): version for table, version in (versions or {}).items()}

        async def store(pipeline: Any) -> bool:
            for key, version in expected.items():
                if (await pipeline.get(key) or b"").decode() != version:
                    return False
            pipeline.multi()
            for table, records in changes.items():
                deleted = [id for id, value in records.items() if value is None]
                written = {id: value for id, value in records.items() if value is not None}
                if deleted:
                    pipeline.hdel(name_of(table), *deleted)
                if written:
                    pipeline.hset(name_of(table), mapping=written)
                pipeline.set(version_of(table), secrets.token_hex(8))
            return True

        # Repeated if a version changes between its reading and the writing.
        return await self.run(
            lambda client: client.transaction(store, *expected, value_from_callable=True),
            LARGE_SECONDS,
        )

    async def increase(
        self, table: str, amounts: Mapping[str, int], limits: Mapping[str, int] | None = None
    ) -> str | None:
        """If only the answer of Redis was lost, a repetition adds the amounts twice."""
        values = [
            value
            for id, amount in amounts.items()
            for value in (id, amount, (limits or {}).get(id, ""))
        ]
        seconds = LARGE_SECONDS if limits is None else None  # a request waits for its limits
        over = await self.run(lambda _: self._increase([name_of(table)], values), seconds)
        return over.decode() if over else None

    async def find(self, collection: str, id: str, seconds: float | None = None) -> bytes | None:
        value: bytes | None = await self.execute(
            "GET", f"{name_of(collection)}:{id}", seconds=seconds
        )
        return value

    async def add(
        self, collection: str, records: Sequence[tuple[str, bytes]], bounds: Bounds
    ) -> None:
        prefix = name_of(collection) + ":"
        values = [value for record in records for value in record]
        arguments = [bounds.size, bounds.bytes, round(1000 * bounds.seconds), prefix, *values]
        await self.run(
            lambda _: self._add([prefix + "index", prefix + "bytes"], arguments), LARGE_SECONDS
        )

    async def find_all(self, collection: str, ids: Sequence[str]) -> list[bytes | None]:
        """Returns records of a collection, as `find` does."""
        values: list[bytes | None] = await self.execute(
            "MGET", *[f"{name_of(collection)}:{id}" for id in ids]
        )
        return values

    async def put(
        self, collection: str, id: str, value: bytes, life: float, seconds: float | None = None
    ) -> None:
        await self.execute(
            "SET", f"{name_of(collection)}:{id}", value, "PX", round(1000 * life), seconds=seconds
        )

    async def exists(self, collection: str, id: str) -> bool:
        return bool(await self.execute("EXISTS", f"{name_of(collection)}:{id}"))

    async def remove(self, collection: str, id: str) -> bool:
        return bool(await self.execute("UNLINK", f"{name_of(collection)}:{id}"))

    async def charge(
        self, amounts: Sequence[tuple[str, int, int]], seconds: float
    ) -> tuple[int, float]:
        """Adds amounts to counters of windows of some seconds, or none of them. An amount has the
        name of its counter, the limit, and the number to add. Returns the position of the first one
        over its limit and the seconds until its window ends, or -1 if all were added."""
        keys = [f"{name_of('limits')}:{name}" for name, _, _ in amounts]
        numbers = [number for _, limit, amount in amounts for number in (limit, amount)]
        over, milliseconds = await self.run(
            lambda _: self._charge(keys, [round(1000 * seconds), *numbers])
        )
        return over - 1, milliseconds / 1000


def name_of(table: str) -> str:
    """Returns the key of a table, or the beginning of the keys of a collection:
    `glossaries:entries` is `attentive:glossaries:1:entries`."""
    name, _, part = table.partition(":")
    return f"attentive:{name}:1" + (f":{part}" if part else "")


def version_of(table: str) -> str:
    """Returns the key of a table's version."""
    return name_of(table) + ":version"

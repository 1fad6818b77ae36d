"""The history in Redis, so that several servers share it: whichever of them is asked finds what any of them served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from server.history.memory import Record
from server.history.persistent import dumped, loaded

PREFIX = "attentive:history:1:"
"""Before every key; the number changes with the form of a record."""
INDEX = PREFIX + "index"
"""A sorted set: when -> "id bytes" of every record."""
BYTES = PREFIX + "bytes"
"""The bytes of every record in the index."""
TIMEOUT_SECONDS = 1.0

WRITE = """
local size, bytes, life, prefix = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local held = tonumber(redis.call('GET', KEYS[2]) or 0)
for i = 5, #ARGV, 2 do
  local length = #ARGV[i + 1]
  redis.call('SET', prefix .. ARGV[i], ARGV[i + 1], 'PX', life)
  held = held + length * redis.call('ZADD', KEYS[1], now, ARGV[i] .. ' ' .. length)
end
local function forget(entry)
  local id, length = string.match(entry, '(%S+) (%d+)')
  redis.call('ZREM', KEYS[1], entry)
  redis.call('DEL', prefix .. id)
  held = held - length
end
for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - life)) do forget(entry) end
while redis.call('ZCARD', KEYS[1]) > size or held > bytes do
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  if not oldest then held = 0 break end
  forget(oldest)
end
redis.call('SET', KEYS[2], held, 'PX', life)
redis.call('PEXPIRE', KEYS[1], life)
return held
"""
"""Adds records and forgets what is too old or too much, in one step whoever else writes. The times are Redis' own, so that
the servers' clocks need not agree."""


class RedisStore:
    """At most `size` records, `bytes_limit` bytes of them, each for `seconds`, of all servers together."""

    failures: tuple[type[Exception], ...] = (RedisError,)

    def __init__(self, client: Redis, size: int, bytes_limit: int, seconds: float) -> None:
        self._client = client
        self._write = client.register_script(WRITE)
        self._bounds = (size, bytes_limit, round(1000 * seconds))

    def write(self, records: Sequence[Record]) -> None:
        arguments: list[Any] = [*self._bounds, PREFIX]
        for record in records:
            arguments += [record.id, dumped(record)]
        self._write(keys=[INDEX, BYTES], args=arguments)

    def read(self, id: str) -> Record | None:
        data: Any = self._client.get(PREFIX + id)
        return None if data is None else loaded(data)

    def close(self) -> None:
        self._client.close()


def connected(url: str) -> Redis:
    """A client of the Redis at that address, which is not called yet. Raises ValueError for what is no address."""
    return Redis.from_url(
        url,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), 1),  # once, for a connection that Redis closed while it was idle
    )

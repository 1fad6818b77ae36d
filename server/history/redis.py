"""The history in Redis, shared by several servers: each of them finds the translations of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from server.history.records import TranslationRecord, deserialize, serialize

PREFIX = "attentive:history:1:"
"""Prefix of every key. The number is the version of the record format."""
INDEX = PREFIX + "index"
"""A sorted set of "id bytes", one entry per record, scored by the time of writing in milliseconds."""
BYTES = PREFIX + "bytes"
"""The total bytes of the records in the index."""
TIMEOUT_SECONDS = 1.0

WRITE_SCRIPT = """
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
"""Adds records and removes those beyond the bounds, in one atomic step. It uses the clock of Redis, so that the clocks
of the servers need not agree."""


class RedisStore:
    """Stores at most `size` records and `bytes_limit` bytes, each record for `seconds`, over all servers together."""

    failures: tuple[type[Exception], ...] = (RedisError,)

    def __init__(self, client: Redis, size: int, bytes_limit: int, seconds: float) -> None:
        self._client = client
        self._write = client.register_script(WRITE_SCRIPT)
        self._bounds = (size, bytes_limit, round(1000 * seconds))

    def open(self) -> None:
        """Does nothing: the client connects at its first command, as Redis may start after this server."""

    def write(self, records: Sequence[TranslationRecord]) -> None:
        """Writes the records and deletes those beyond the bounds."""
        arguments: list[Any] = [*self._bounds, PREFIX]
        for record in records:
            arguments += [record.id, serialize(record)]
        self._write(keys=[INDEX, BYTES], args=arguments)

    def read(self, id: str) -> TranslationRecord | None:
        """Returns the record of an id, or None."""
        data: Any = self._client.get(PREFIX + id)
        return None if data is None else deserialize(data)

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()


def connect(url: str) -> Redis:
    """Returns a client that connects at its first command. Raises ValueError for an invalid address."""
    return Redis.from_url(
        url,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), 1),  # one retry, for a connection that Redis closed while it was idle
    )

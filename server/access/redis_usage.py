"""Characters sent with each API key, over all servers of one Redis and over restarts."""

from __future__ import annotations

import secrets
from collections import Counter

from server.access.usage import Usage
from server.errors import StateUnreachable
from server.state.redis import RedisState, Script

USAGE = "attentive:usage:1"
"""A hash: id of the key -> characters."""
ADD = Script("""
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  redis.call('SET', KEYS[2], ARGV[1], 'EX', 86400)
  for i = 2, #ARGV, 2 do redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
""")
"""Adds the counts of one batch once, even where it is sent again because its answer was lost: KEYS[2] holds the number
of the latest batch of a server."""


class RedisUsage(Usage):
    """Counts in memory, and adds the counts to those in Redis twice a second. During an outage they wait."""

    def __init__(self, state: RedisState) -> None:
        super().__init__()
        self._state = state
        self._server = secrets.token_hex(8)
        self._number = 0
        self._batch: Counter[str] | None = None
        state.at_every_beat(self.flush)

    async def read(self, key: str) -> int:
        """Returns the characters of a key over all servers. Raises StateUnreachable."""
        try:
            stored = await self._state.execute("HGET", USAGE, key)
        except StateUnreachable:
            raise StateUnreachable("The usage cannot be read now; try again later.") from None
        waiting = self._batch[key] if self._batch else 0
        return int(stored or 0) + waiting + self._characters[key]

    async def flush(self) -> None:
        """Adds the counts since the last call to those in Redis. Raises StateUnreachable, and repeats the batch at the
        next call."""
        if self._batch is None:
            if not self._characters:
                return
            self._number += 1
            self._batch, self._characters = self._characters, Counter()
        arguments = [value for pair in self._batch.items() for value in pair]
        await self._state.evaluate(ADD, [USAGE, f"{USAGE}:{self._server}"], self._number, *arguments)
        self._batch = None

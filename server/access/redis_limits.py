"""The counts of the rate limits in Redis: one limit over all servers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from server.access.charges import WINDOW_SECONDS, Charge, over_limit
from server.state.redis import RedisState, Script

PREFIX = "attentive:limits:1:"
CHARGE = Script("""
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
""")
"""Counts all charges or none. A window begins with its first request, by the clock of Redis."""


class RedisLimits:
    """Fixed windows of one minute in Redis."""

    def __init__(self, state: RedisState) -> None:
        self._state = state

    async def charge(self, caller: str, charges: Sequence[Charge]) -> None:
        """Counts all charges against the caller's limits, or none of them. Raises Overloaded, or StateUnreachable."""
        keys = [f"{PREFIX}{each.unit}:{caller}" for each in charges]
        numbers = [number for each in charges for number in (each.limit, each.amount)]
        over, milliseconds = await self._state.evaluate(CHARGE, keys, 1000 * WINDOW_SECONDS, *numbers)
        if over:
            raise over_limit(charges[over - 1], math.ceil(milliseconds / 1000))

"""Limits on requests and characters per minute for each API key or network address, and the quotas of keys."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from typing import Protocol

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from server.access.authentication import Caller
from server.config import Settings
from server.errors import Overloaded, StateUnreachable, TextTooLong
from server.store.keys import Key
from server.store.usage import Usage

WINDOW_SECONDS = 60


Charge = tuple[str, int, int]
"""A unit ("requests" or "characters"), its limit per minute, and the amount to count."""


class SharedCounters(Protocol):
    """Counters of several servers or processes."""

    async def charge(self, amounts: Sequence[tuple[str, int, int]], seconds: float) -> tuple[int, float]:
        """As `RedisStore.charge`. Raises StateUnreachable."""


class RateLimiter:
    """Counts requests and characters of each caller in fixed windows of one minute, and the usage of keys.

    All counts of a window are reset when it ends, so Retry-After is exact. Counters are in memory, or in the `shared`
    ones of several servers or processes. While these are unreachable, each counts for itself.
    """

    def __init__(self, settings: Settings, usage: Usage, shared: SharedCounters | None = None) -> None:
        self._default_limits = (settings.requests_per_minute, settings.characters_per_minute)
        self._local = FixedWindowRateLimiter(MemoryStorage())
        self._shared = shared
        self.usage = usage

    async def count(self, caller: Caller, requests: int = 1, characters: int = 0) -> None:
        """Counts requests and characters of a caller. `requests` 0 adds characters to a request counted before.

        Raises Overloaded where a limit or a quota is exceeded, and TextTooLong where `characters` alone exceed the limit.
        """
        requests_limit, characters_limit = self._limits(caller.key)
        if characters_limit and characters > characters_limit:
            raise TextTooLong(
                f"{characters:,} characters are over the limit of {characters_limit:,} characters per minute."
            )
        charges = [("requests", requests_limit, requests), ("characters", characters_limit, characters)]
        if limited := [charge for charge in charges if charge[1] and charge[2]]:
            await self._charge(caller.name, limited)
        key = caller.key
        if characters and key is not None and (key.characters_per_day or key.characters_per_month):
            await self.usage.spend(key, characters)
        elif characters:
            self.usage.add(caller.owner, characters)

    def _limits(self, key: Key | None) -> tuple[int, int]:
        """Returns requests and characters per minute; 0 is unlimited."""
        requests, characters = self._default_limits
        if key is not None:
            requests = requests if key.requests_per_minute is None else key.requests_per_minute
            characters = characters if key.characters_per_minute is None else key.characters_per_minute
        return requests, characters

    def charge(self, amounts: Sequence[tuple[str, int, int]]) -> tuple[int, float]:
        """Counts for another process, as `RedisStore.charge` does."""
        return charge(self._local, "", amounts)

    async def _charge(self, caller: str, charges: Sequence[Charge]) -> None:
        over = None
        if self._shared is not None:
            amounts = [(f"{unit}:{caller}", limit, amount) for unit, limit, amount in charges]
            with contextlib.suppress(StateUnreachable):  # this server counts for itself
                over = await self._shared.charge(amounts, WINDOW_SECONDS)
        position, seconds = over or charge(self._local, caller, charges)
        if position >= 0:
            unit, limit, _ = charges[position]
            wait = min(WINDOW_SECONDS, max(1, math.ceil(seconds)))
            raise Overloaded(f"The limit of {unit} per minute is {limit:,}.", wait, "rate")


def charge(limiter: FixedWindowRateLimiter, caller: str, charges: Sequence[Charge]) -> tuple[int, float]:
    """Counts all charges against the caller's limits, or none of them. Returns as `RedisStore.charge` does."""
    items = [(RateLimitItemPerMinute(limit), unit, amount) for unit, limit, amount in charges]
    for position, (item, unit, amount) in enumerate(items):
        if not limiter.test(item, unit, caller, cost=amount):
            seconds = limiter.get_window_stats(item, unit, caller).reset_time - time.time()
            if seconds <= WINDOW_SECONDS + 1:
                return position, seconds
            limiter.clear(item, unit, caller)  # the clock was set back, which would prolong this window
    for item, unit, amount in items:
        limiter.hit(item, unit, caller, cost=amount)
    return -1, 0.0

"""Limits on requests and characters per minute, for each API key or network address."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from server.access.authentication import Caller
from server.config import Settings
from server.errors import Overloaded, StateUnreachable, TextTooLong
from server.store.keys import Key
from server.store.usage import Usage

if TYPE_CHECKING:
    from server.store.redis import RedisStore

WINDOW_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Charge:
    """An amount of `unit` ("requests" or "characters") to count against a limit per minute."""

    unit: str
    limit: int
    amount: int


class RateLimiter:
    """Counts requests and characters of each caller in fixed windows of one minute, and the usage of keys.

    All counts of a window are reset when it ends, so Retry-After is exact. Counters are in memory, or in the `shared`
    store of several servers. While it is unreachable, each server counts for itself.
    """

    def __init__(self, settings: Settings, usage: Usage, shared: RedisStore | None = None) -> None:
        self._default_limits = (settings.requests_per_minute, settings.characters_per_minute)
        self._local = FixedWindowRateLimiter(MemoryStorage())
        self._shared = shared
        self.usage = usage

    async def count(self, caller: Caller, requests: int = 1, characters: int = 0) -> None:
        """Counts requests and characters of a caller. `requests` 0 adds characters to a request counted before.

        Raises Overloaded where a limit is exceeded, and TextTooLong where `characters` alone exceed the limit.
        """
        requests_limit, characters_limit = self._limits(caller.key)
        if characters_limit and characters > characters_limit:
            raise TextTooLong(
                f"{characters:,} characters are over the limit of {characters_limit:,} characters per minute."
            )
        if requests_limit or characters_limit:
            charges = [Charge("requests", requests_limit, requests), Charge("characters", characters_limit, characters)]
            if limited := [charge for charge in charges if charge.limit and charge.amount]:
                await self._charge(caller.name, limited)
        if characters:
            self.usage.add(caller.owner, characters)

    def _limits(self, key: Key | None) -> tuple[int, int]:
        """Returns requests and characters per minute; 0 is unlimited."""
        requests, characters = self._default_limits
        if key is not None:
            requests = requests if key.requests_per_minute is None else key.requests_per_minute
            characters = characters if key.characters_per_minute is None else key.characters_per_minute
        return requests, characters

    async def _charge(self, caller: str, charges: list[Charge]) -> None:
        if self._shared is not None:
            amounts = [(f"{each.unit}:{caller}", each.limit, each.amount) for each in charges]
            try:
                over, seconds = await self._shared.charge(amounts, WINDOW_SECONDS)
            except StateUnreachable:
                pass  # this server counts for itself
            else:
                if over >= 0:
                    raise over_limit(charges[over], math.ceil(seconds))
                return
        charge(self._local, caller, charges)


def charge(limiter: FixedWindowRateLimiter, caller: str, charges: Sequence[Charge]) -> None:
    """Counts all charges against the caller's limits, or none of them. Raises Overloaded."""
    items = [(RateLimitItemPerMinute(each.limit), each) for each in charges]
    for item, each in items:
        if not limiter.test(item, each.unit, caller, cost=each.amount):
            wait = math.ceil(limiter.get_window_stats(item, each.unit, caller).reset_time - time.time())
            if wait > item.get_expiry() + 1:  # the clock was set back, which would prolong this window
                limiter.clear(item, each.unit, caller)
                continue
            raise over_limit(each, wait)
    for item, each in items:
        limiter.hit(item, each.unit, caller, cost=each.amount)


def over_limit(charge: Charge, seconds: int) -> Overloaded:
    """Returns the error of a charge beyond its limit, whose window ends after `seconds`."""
    wait = min(WINDOW_SECONDS, max(1, seconds))
    return Overloaded(f"Slow down: the limit of {charge.unit} per minute is {charge.limit:,}.", wait, "rate")

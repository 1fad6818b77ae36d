"""One count against a rate limit."""

from __future__ import annotations

from dataclasses import dataclass

from server.errors import Overloaded

WINDOW_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Charge:
    """An amount of `unit` ("requests" or "characters") to count against a limit per minute."""

    unit: str
    limit: int
    amount: int


def over_limit(charge: Charge, seconds: int) -> Overloaded:
    """Returns the error of a charge beyond its limit, whose window ends after `seconds`."""
    wait = min(WINDOW_SECONDS, max(1, seconds))
    return Overloaded(f"Slow down: the limit of {charge.unit} per minute is {charge.limit:,}.", wait, "rate")

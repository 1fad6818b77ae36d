"""How many tokens a prefill may have, from the measured speed of the device."""

from __future__ import annotations

_STALL_SECONDS, _STALL_STEPS, _LONGEST_STALL = 0.05, 3.0, 0.1
_MINIMUM = 64
"""While others run, a prefill may take about _STALL_SECONDS or the time of _STALL_STEPS decode steps, and longer where
more slots are free than in use: this bounds both the pause of running sequences and the time that slots stay empty. It
never takes much longer than _LONGEST_STALL, because a short request may arrive during it."""


class PrefillBudget:
    """`maximum` bounds the padded source tokens of every prefill. Times are in seconds."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._tokens_per_second: float | None = None
        self._step_seconds = 0.0

    def record_prefill(self, padded_tokens: int, seconds: float) -> None:
        """Records that a prefill of `padded_tokens` took `seconds`."""
        rate = padded_tokens / max(seconds, 1e-6)
        before = self._tokens_per_second
        self._tokens_per_second = rate if before is None else 0.8 * before + 0.2 * rate

    def record_step(self, seconds: float) -> None:
        """Records that a decode step took `seconds`."""
        self._step_seconds += 0.2 * (seconds - self._step_seconds)

    def tokens(self, free: int, used: int) -> int:
        """Returns the padded tokens that the next prefill may have, with `free` and `used` slots."""
        if self._tokens_per_second is None:
            return self._maximum // 4 if used else self._maximum
        steps = _STALL_STEPS * self._step_seconds
        stall = max(_STALL_SECONDS, steps) * max(1.0, free / max(used, 1))
        allowed = min(stall, max(_LONGEST_STALL, steps))
        return min(self._maximum, max(_MINIMUM, int(self._tokens_per_second * allowed)))

"""Shares the time of the device: between short requests and documents, and between prefill and decoding."""

from __future__ import annotations

_DOCUMENT_TIME = 1 / 3
"""Seconds for documents in each second for interactive sequences, while there are both."""
_LARGEST_BALANCE = 0.005
"""Documents that did not use their time may use this many seconds of it later, while a short request waits."""
_STALL_SECONDS, _DOCUMENT_STALL_SECONDS, _STALL_STEPS = 0.05, 0.003, 3.0
_MINIMUM_TOKENS = 64
"""A prefill may take about _STALL_SECONDS, or the time of _STALL_STEPS decode steps; one of documents beside short requests
_DOCUMENT_STALL_SECONDS. It is bounded on an idle device too, because a short request may arrive during it."""


class DeviceTime:
    """Records how long work took. `maximum` bounds the padded source tokens of every prefill. Times are in seconds."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._tokens_per_second: float | None = None
        self._step_seconds = 0.0
        self._balance = 0.0
        """Seconds for which documents may delay interactive sequences now; below 0 they pause."""

    @property
    def documents_due(self) -> bool:
        """Whether documents run now, where there are interactive sequences too."""
        return self._balance >= 0

    def record_prefill(self, padded_tokens: int, seconds: float) -> None:
        """Records that a prefill of `padded_tokens` took `seconds`."""
        rate = padded_tokens / max(seconds, 1e-6)
        before = self._tokens_per_second
        self._tokens_per_second = rate if before is None else 0.8 * before + 0.2 * rate

    def record_step(self, seconds: float) -> None:
        """Records that a decode step took `seconds`."""
        self._step_seconds += 0.2 * (seconds - self._step_seconds)

    def charge(self, seconds: float, document: bool) -> None:
        """Records that interactive sequences ran for `seconds`, or waited for a `document`."""
        self._balance = min(_LARGEST_BALANCE, self._balance + (-1 if document else _DOCUMENT_TIME) * seconds)

    def prefill_tokens(self, beside: bool) -> int:
        """Returns the padded tokens that the next prefill may have, `beside` for one of documents beside short requests."""
        if self._tokens_per_second is None:
            return self._maximum
        seconds = max(_DOCUMENT_STALL_SECONDS if beside else _STALL_SECONDS, _STALL_STEPS * self._step_seconds)
        return min(self._maximum, max(_MINIMUM_TOKENS, int(self._tokens_per_second * seconds)))

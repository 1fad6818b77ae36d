"""The result cache in memory: bounded by bytes, the least recently used translation is dropped first."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from sys import getsizeof

from server.translation.types import Translation

_ENTRY = 700
"""Bytes of an entry without its sentences: key, translation, leg, and the places in the dictionary."""
_SENTENCE = 300
_HYPOTHESIS = 150
_RUN = 120
_INTEGER, _FLOAT = 40, 32
"""Bytes of a number with its place in a tuple."""


class MemoryCache:
    """Keeps translations of about `limit` bytes, each for `seconds` on the monotonic `clock`."""

    def __init__(self, limit: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.bytes = 0
        self._limit, self._seconds = limit, seconds
        self._clock = clock
        self._entries: OrderedDict[bytes, tuple[float, int, Translation]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: bytes) -> Translation | None:
        """Returns the translation of a key, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[0] <= self._clock():
            self._remove(key)
            return None
        self._entries.move_to_end(key)
        return entry[2]

    def add(self, key: bytes, translation: Translation) -> None:
        """Keeps a translation. One that is larger than the limit is not kept."""
        if key in self._entries:
            self._remove(key)
        size = size_of(translation)
        now = self._clock()
        self._entries[key] = (now + self._seconds, size, translation)
        self.bytes += size
        while self._entries:
            oldest = next(iter(self._entries))
            if self.bytes <= self._limit and self._entries[oldest][0] > now:
                return
            self._remove(oldest)

    def clear(self) -> None:
        """Removes all translations."""
        self._entries.clear()
        self.bytes = 0

    def _remove(self, key: bytes) -> None:
        self.bytes -= self._entries.pop(key)[1]


def size_of(translation: Translation) -> int:
    """Returns the approximate bytes of a translation in memory."""
    total = _ENTRY + getsizeof(translation.text)
    for text in translation.alternatives:
        total += getsizeof(text)
    for leg in translation.legs:
        total += getsizeof(leg.text)
        for sentence in leg.sentences:
            total += _SENTENCE + getsizeof(sentence.source) + getsizeof(sentence.read) + _INTEGER * len(sentence.ids)
            total += _RUN * (len(sentence.to_read) + len(sentence.to_target))
            for text in sentence.targets:
                total += getsizeof(text)
            for hypothesis in sentence.hypotheses:
                total += _HYPOTHESIS + _INTEGER * len(hypothesis.tokens) + _FLOAT * len(hypothesis.token_scores)
    return total

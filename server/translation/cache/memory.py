"""The result cache in memory: bounded by bytes, the least recently used translation is dropped first."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from sys import getsizeof

from server.translation.types import Translation

_ENTRY, _SENTENCE, _NUMBER = 700, 300, 40
"""Bytes of an entry without its sentences, of a sentence with its hypotheses, and of a number in a tuple."""


class MemoryCache:
    """Keeps translations of about `limit` bytes, each for `seconds` on the monotonic `clock`."""

    def __init__(self, limit: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.bytes = 0
        self._limit, self._seconds = limit, seconds
        self._clock = clock
        self._entries: OrderedDict[bytes, tuple[float, int, Translation]] = OrderedDict()

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

    def _remove(self, key: bytes) -> None:
        self.bytes -= self._entries.pop(key)[1]


def size_of(translation: Translation) -> int:
    """Returns the approximate bytes of a translation in memory."""
    texts = [translation.text, *translation.alternatives, *[leg.text for leg in translation.legs]]
    total = _ENTRY
    for sentence in [sentence for leg in translation.legs for sentence in leg.sentences]:
        texts += (sentence.source, sentence.read, *sentence.targets)
        scores = [len(hypothesis.tokens) + len(hypothesis.token_scores) for hypothesis in sentence.hypotheses]
        runs = len(sentence.to_read) + len(sentence.to_target)
        total += _SENTENCE + _NUMBER * (len(sentence.ids) + sum(scores) + 3 * runs)
    return total + sum(map(getsizeof, texts))

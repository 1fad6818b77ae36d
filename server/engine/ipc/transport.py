"""Packs messages into frames for the pipes between the API process and a worker.

A frame is the length of its body (8 bytes, big endian), then the body: a pickled list of messages.
Both ends are this code.
"""

from __future__ import annotations

import copyreg
import dataclasses
import pickle
from collections.abc import Iterable
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

from model.analysis.pair_alignment import PairWords, WordedSentence
from model.analysis.types import MapChoice
from model.search.options import DecodingOptions, Hypothesis
from server.engine.ipc.messages import Job, JobResult, Look, StepStats, Timings

_HEADER = 8


def _options(*changed: Any) -> DecodingOptions:
    """Returns options with the changed fields: number, value, number, value and so on."""
    return DecodingOptions(
        **{DecodingOptions.__slots__[number]: value for number, value in _pairs(changed)}
    )


@lru_cache(maxsize=256)
def _common_options(*changed: Any) -> DecodingOptions:
    """Returns options that many texts have."""
    return _options(*changed)


def _pairs(values: tuple[Any, ...]) -> Iterable[tuple[Any, Any]]:
    return zip(values[::2], values[1::2], strict=True)


_DEFAULTS = [
    (number, field.name, field.default)
    for number, field in enumerate(dataclasses.fields(DecodingOptions))
]


def _reduced(options: DecodingOptions) -> tuple[Any, ...]:
    return _common(options) if options.is_common else (_options, _changed(options))


@lru_cache(maxsize=256)
def _common(options: DecodingOptions) -> tuple[Any, ...]:
    return _common_options, _changed(options)


def _changed(options: DecodingOptions) -> tuple[Any, ...]:
    changed: list[Any] = []
    for number, name, default in _DEFAULTS:
        if (value := getattr(options, name)) != default:
            changed += (number, value)
    return tuple(changed)


# The messages of every sentence are pickled as calls with their fields, in a third of the time of
# dataclasses with slots.
copyreg.pickle(DecodingOptions, _reduced)
for _kind in (
    Job,
    JobResult,
    Timings,
    Hypothesis,
    StepStats,
    Look,
    MapChoice,
    PairWords,
    WordedSentence,
):
    _values = attrgetter(*(field.name for field in dataclasses.fields(_kind)))
    copyreg.pickle(
        _kind, partial(lambda make, values, message: (make, values(message)), _kind, _values)
    )


def pack(messages: Iterable[Any]) -> bytes:
    """Returns one frame."""
    body = pickle.dumps(list(messages), protocol=pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(_HEADER, "big") + body


class Unpacker:
    """Collects bytes and returns the messages that are complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """Returns the messages that `data` completes, in order."""
        self._buffer += data
        messages: list[Any] = []
        while len(self._buffer) >= _HEADER:
            end = _HEADER + int.from_bytes(self._buffer[:_HEADER], "big")
            if len(self._buffer) < end:
                break
            messages += pickle.loads(self._buffer[_HEADER:end])  # noqa: S301  written by our own process
            del self._buffer[:end]
        return messages

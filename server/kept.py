"""Results of functions of texts, which are forgotten where a caller asked for no storage, and when
a model leaves."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar, cast
from weakref import WeakSet

from model import tokenizer

P = ParamSpec("P")
R = TypeVar("R")
SECONDS = 1.0
_waiting: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
_emptied: list[Callable[[], None]] = [tokenizer.forget_texts, re.purge]


def kept(size: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keeps the results of a function for the `size` arguments that were used last, until `forget`.
    For functions whose arguments have parts of texts, or vocabularies."""

    def keep(function: Callable[P, R]) -> Callable[P, R]:
        results = lru_cache(size)(function)
        _emptied.append(results.cache_clear)
        return cast(Callable[P, R], results)

    return keep


def forget_soon() -> None:
    """Forgets the texts of requests that are not to be stored, of all that end within SECONDS
    together."""
    loop = asyncio.get_running_loop()
    if loop not in _waiting:
        _waiting.add(loop)
        loop.call_later(SECONDS, _forget_now, loop)


def _forget_now(loop: asyncio.AbstractEventLoop) -> None:
    _waiting.discard(loop)
    forget()


def forget() -> None:
    """Forgets all results, and the patterns that were compiled of parts of texts."""
    for empty in _emptied:
        empty()

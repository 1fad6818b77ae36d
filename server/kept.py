"""Caches of functions of texts, emptied for callers who ask for no storage and when a model
leaves."""

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
    """Caches the results of a function for the `size` arguments used last, until `forget`. For
    functions whose arguments contain texts or vocabularies."""

    def keep(function: Callable[P, R]) -> Callable[P, R]:
        results = lru_cache(size)(function)
        _emptied.append(results.cache_clear)
        return cast(Callable[P, R], results)

    return keep


def forget_soon() -> None:
    """Empties the caches within SECONDS, once for all requests that end until then."""
    loop = asyncio.get_running_loop()
    if loop not in _waiting:
        _waiting.add(loop)
        loop.call_later(SECONDS, _forget_now, loop)


def _forget_now(loop: asyncio.AbstractEventLoop) -> None:
    _waiting.discard(loop)
    forget()


def forget() -> None:
    """Empties all caches, and the compiled patterns, which may contain texts."""
    for empty in _emptied:
        empty()

"""Chooses the search for the options of a sentence: greedy, forced, beam, or one of them with the loop guard."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import lru_cache, partial

from model.model_folder import Generation
from model.search.base import DEFAULT_GENERATION, Search
from model.search.beam import BeamSearch
from model.search.first_token import FirstTokenSearch
from model.search.greedy import GreedySearch
from model.search.loop_guard import GuardedSearch
from model.search.options import DecodingOptions


def new_search(
    options: DecodingOptions,
    *,
    start: int,
    end: int,
    source: Sequence[int],
    max_length: int,
    generation: Generation = DEFAULT_GENERATION,
    unseen: int = 0,
) -> Search:
    """Returns the search for one source (its ids) under `options`; `max_length` and `generation` are the model's own.
    `unseen` tokens before the target count in the length normalization. Raises ValueError for a prefix or target that
    is longer than the model reads.
    """
    if options.loop_guard and options.target is None:
        plain = _without_loop_guard(options)
        make = partial(new_search, start=start, end=end, source=source, max_length=max_length, generation=generation)
        return GuardedSearch(make, plain, source)
    if options.first_token is not None:
        inner = new_search(
            _without_first_token(options), start=options.first_token, end=end, source=source, max_length=max_length - 1,
            generation=generation, unseen=1,
        )  # fmt: skip
        return FirstTokenSearch(inner, start=start, first=options.first_token)
    wanted = options.max_length if options.max_length is not None else len(source) + 50
    limit = min(wanted, max_length)
    if options.target is not None:
        forced = (*options.target, end)
        if len(forced) > max_length:
            raise ValueError(f"The target has {len(options.target)} tokens; the model reads at most {max_length - 1}.")
        return GreedySearch(options, start=start, end=end, limit=len(forced), forced=forced, unseen=unseen)
    if len(options.prefix) >= max_length:
        raise ValueError(f"The prefix has {len(options.prefix)} tokens; the model writes at most {max_length - 1}.")
    limit = max(limit, len(options.prefix) + 1)
    if options.beam_size == 1:
        return GreedySearch(
            options, start=start, end=end, limit=limit, forced=options.prefix, generation=generation, unseen=unseen
        )
    return BeamSearch(options, start=start, end=end, limit=limit, generation=generation, unseen=unseen)


@lru_cache(maxsize=512)
def _without_first_token(options: DecodingOptions) -> DecodingOptions:
    return dataclasses.replace(options, first_token=None)


@lru_cache(maxsize=512)
def _without_loop_guard(options: DecodingOptions) -> DecodingOptions:
    return dataclasses.replace(options, loop_guard=False)

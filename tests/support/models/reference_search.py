"""Beam search by its definition: all continuations of all rows are sorted at every step, and
nothing is kept between steps."""

from __future__ import annotations

from collections.abc import Sequence

from model.model_folder import Generation
from model.search.options import DecodingOptions
from model.search.search import normalize
from tests.support.models.table_search import END, START, Table

Path = tuple[tuple[int, ...], tuple[float, ...]]
"""Tokens, end of sentence included, and their log-probabilities."""


def continuations(
    table: Table,
    source: Sequence[int],
    path: Path,
    options: DecodingOptions,
    generation: Generation,
    limit: int,
) -> list[Path]:
    """Returns the paths with one more token, in the order of their log-probabilities."""
    tokens, scores = path
    row = table.log_probabilities((*source, START, *tokens)).astype("float32").tolist()
    size, place = options.no_repeat_ngram_size, len(tokens)
    if generation.forced_end and place + 1 == limit:
        allowed, row = [END], [0.0] * len(row)
    elif place < len(options.prefix):
        allowed = [options.prefix[place]]
    else:
        grams = {tokens[i : i + size] for i in range(place - size + 1)} if size else set()
        repeats = [
            token for token in range(len(row)) if (*tokens, token)[place + 1 - size :] in grams
        ]
        never = {*generation.forbidden, *(repeats if size and place >= size - 1 else ())} - {END}
        allowed = sorted({*range(len(row))} - never, key=lambda token: -row[token])
    return [((*tokens, token), (*scores, row[token])) for token in allowed]


def reference_search(
    table: Table,
    source: Sequence[int],
    options: DecodingOptions,
    generation: Generation,
    limit: int,
) -> list[Path]:
    """Returns the finished targets of at most `limit` tokens, best first. A beam of 1 is greedy."""
    width = options.beam_size
    threshold = generation.beam_threshold if options.hypotheses == 1 else None
    live: list[Path] = [((), ())]
    finished: list[Path] = []

    def score(path: Path) -> float:
        return -normalize(sum(path[1]), len(path[0]), options)

    while live:
        place = len(live[0][0])
        last, forced = place + 1 == limit, place < len(options.prefix)
        found = [
            each
            for path in live
            for each in continuations(table, source, path, options, generation, limit)
        ]
        found.sort(key=lambda path: -sum(path[1]))
        found = found[
            : 1 if width == 1 else width - len(finished) if options.shrinking_beam else 2 * width
        ]
        ends = [not forced and path[0][-1] == END for path in found]
        finished += [
            path for path, end in list(zip(found, ends, strict=True))[:width] if end or last
        ]
        finished = sorted(finished, key=score)[:width]
        live = [path for path, end in zip(found, ends, strict=True) if not end and not last][:width]
        if threshold is not None:
            live = [path for path in live if sum(path[1]) >= sum(live[0][1]) - threshold]
        full = bool(live) and len(finished) == width
        if full and (options.early_stopping or score(finished[-1]) <= score(live[0])):
            break
    return finished[: options.hypotheses]

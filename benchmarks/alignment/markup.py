"""Inline tags around words of a source: are they around the words of the translation that the gold
alignment links?"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.alignment.gold import GoldPair, Links, Written
from server.text.projection import SpanProjection
from server.text.spans import Span

LONGEST = 3
"""Most words of a tag."""
Tag = tuple[Span, Span]
"""Characters of the source and of the translation."""


def tags(pair: GoldPair, source: Written, target: Written) -> list[Tag]:
    """Returns the first and the last run of source words, of up to LONGEST, that a gold alignment
    links to a run of the translation, and this to no other word."""
    found = []
    for first in range(len(source.spans)):
        for end in range(first + LONGEST, first, -1):
            ours = {token for word in source.tokens[first:end] for token in word}
            theirs = {j for i, j in pair.sure if i in ours}
            within = [set(word) <= theirs for word in target.tokens]
            run = [number for number, is_within in enumerate(within) if is_within]
            whole = (
                bool(run)
                and run[-1] - run[0] + 1 == len(run)
                and theirs == {t for n in run for t in target.tokens[n]}
            )
            linked = (
                ours
                == {i for i, j in pair.sure if j in theirs}
                == {i for i, j in pair.possible if j in theirs}
            )
            if whole and linked and end <= len(source.spans):
                spans = source.spans[first][0], source.spans[end - 1][1]
                found.append((spans, (target.spans[run[0]][0], target.spans[run[-1]][1])))
                break
    return [
        tag
        for tag in dict.fromkeys([*found[:1], *found[-1:]])
        if tag is found[0] or tag[0][0] >= found[0][0][1]
    ]


def right(links: Links, source: Written, target: Written, tagged: Sequence[Tag]) -> bool:
    """Returns whether all tags of a sentence are placed as the gold alignment has them."""
    spans = [(source.spans[i], target.spans[j]) for i, j in sorted(links)]
    projection = SpanProjection(source.text, target.text, spans)
    return all(projection.project(ours) == theirs for ours, theirs in tagged)

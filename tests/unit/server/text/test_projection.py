"""Parts of a source are projected onto runs of words of a translation."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text.projection import SpanProjection


def words(text: str) -> list[tuple[int, int]]:
    return [word.span() for word in re.finditer(r"\S+", text)]


def span(text: str, part: str) -> tuple[int, int]:
    """Returns where a text has a part of whole words."""
    found = re.search(rf"(?<!\S){re.escape(part)}(?!\S)", text)
    assert found is not None
    return found.span()


BRIDGED = """
has not written me | no me ha escrito | has not written | has=ha not=no written=escrito me=me | no me ha escrito
did not see him | ne l' ai pas vu | did not see | did=ai not=ne not=pas see=vu him=l' | ne l' ai pas vu
le chien du voisin | the neighbour 's dog | le chien | le=the chien=dog voisin=neighbour | dog
is named after the Swiss | nombre se debe al suizo | named | is=se named=nombre named=debe the=al Swiss=suizo | nombre
"""
"""A source, its translation, a part of the source, the links between words, the projected part."""


@pytest.mark.parametrize("row", BRIDGED.strip().split("\n"))
def test_a_gap_is_bridged_for_a_word_beside_the_part(row: str) -> None:
    source, target, part, links, expected = row.split(" | ")
    pairs = [link.split("=") for link in links.split()]
    known = sorted([(span(source, word), span(target, goal)) for word, goal in pairs])
    start, end = SpanProjection(source, target, known).project(span(source, part))
    assert target[start:end] == expected


sizes = st.integers(1, 9)


@given(st.data(), sizes, sizes)
def test_a_part_becomes_the_best_run(data: st.DataObject, n: int, m: int) -> None:
    source, target = " ".join(["word"] * n), " ".join(["mot"] * m)
    pairs = data.draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, m - 1))))
    first = data.draw(st.integers(0, n - 1))
    last = data.draw(st.integers(first, n - 1))
    goals, parts = words(target), words(source)
    span = SpanProjection(source, target, [(parts[i], goals[j]) for i, j in sorted(pairs)]).project(
        (parts[first][0], parts[last][1])
    )
    linked = {j for i, j in pairs if first <= i <= last}
    elsewhere = {j for _, j in pairs} - linked
    if not linked or (first, last) == (0, n - 1):
        return
    run = [j for j, goal in enumerate(goals) if span[0] <= goal[0] and goal[1] <= span[1]]
    assert {run[0], run[-1]} <= linked

    def weight(low: int, high: int) -> int:
        return sum([(j in linked) - (j in elsewhere) for j in range(low, high + 1)])

    assert weight(run[0], run[-1]) == max(
        weight(low, high) for low in linked for high in linked if low <= high
    )

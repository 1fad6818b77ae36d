"""Parts of a source are projected onto runs of words of a translation."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text.projection import SpanProjection


def words(text: str) -> list[tuple[int, int]]:
    return [word.span() for word in re.finditer(r"\S+", text)]


def projected(source: str, target: str, part: str, links: dict[int, list[int]]) -> str:
    """Returns the words for a part of a source whose words, by their numbers, are linked to these
    of the target."""
    first, second = words(source), words(target)
    known = sorted([(first[i], second[j]) for i, found in links.items() for j in found])
    at = source.index(part)
    start, end = SpanProjection(source, target, known).project((at, at + len(part)))
    return target[start:end]


@pytest.mark.parametrize(
    ("source", "target", "part", "links", "expected"),
    [
        (
            "has not written me",
            "no me ha escrito",
            "has not written",
            {0: [2], 1: [0], 2: [3], 3: [1]},
            "no me ha escrito",
        ),
        (
            "did not see him",
            "ne l' ai pas vu",
            "did not see",
            {0: [2], 1: [0, 3], 2: [4], 3: [1]},
            "ne l' ai pas vu",
        ),
        ("le chien du voisin", "the neighbour 's dog", "le chien", {0: [0], 1: [3], 3: [1]}, "dog"),
        (
            "is named after the Swiss",
            "nombre se debe al suizo",
            "named",
            {0: [1], 1: [0, 2], 3: [3], 4: [4]},
            "nombre",
        ),
    ],
)
def test_a_gap_is_bridged_for_a_word_beside_the_part(
    source: str, target: str, part: str, links: dict[int, list[int]], expected: str
) -> None:
    assert projected(source, target, part, links) == expected


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

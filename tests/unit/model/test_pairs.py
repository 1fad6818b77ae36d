"""The pairs that judge an adapted model are a tenth, always the same, and their sources are never trained on."""

from __future__ import annotations

import pytest

from model.pairs import MOST_KEPT, Pair, folded, split


def memory(count: int) -> list[Pair]:
    """Pairs of which every source occurs twice, in two spellings."""
    words = [f"w{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}" for n in range(count // 2)]
    return [Pair(text, text) for word in words for text in (f"The {word} 1", f"the {word.upper()}  22")]


@pytest.mark.parametrize(("count", "kept"), [(8, 0), (100, 10), (2_000, 200), (30_000, MOST_KEPT)])
@pytest.mark.parametrize("terms", [0, 30])
def test_the_tenth(count, kept, terms):
    glossary = [Pair(pair.source.upper(), "term", term=True) for pair in memory(count)[:terms]]
    training, judgement = split([*memory(count), *glossary])
    assert len(judgement) == (kept if not terms else min(max(0, count - terms) // 10, kept))
    assert not {folded(pair.source) for pair in training} & {folded(pair.source) for pair in judgement}
    assert len(training) + len(judgement) in (count + len(glossary), count + len(glossary) - 1)
    assert set(glossary) <= set(training)
    assert set(split(memory(count)[::-1])[1]) == set(split(memory(count))[1])

"""The words of a sentence of which the model read some spans as symbols are those of the text that was typed."""

from __future__ import annotations

import pytest

from server.inspection.types import tokens
from server.text.offsets import edited


@pytest.mark.parametrize(
    "source", ["since [2009] it", "[2009] is", "in [2009]", "[A], [BC] ran to [2009]", "GO [x]!", "plain", "a [  ] b"]
)
def test_words_are_those_of_the_text(source):
    plain, edits = "", []
    for number, part in enumerate(source.replace("]", "[").split("[")):
        if number % 2 and part.strip():
            edits.append((len(plain), len(plain) + len(part), f"<ph{number}>"))
        plain += part
    read, _ = edited(plain, edits)
    originals = {word: plain[start:end] for start, end, word in edits}
    offsets = ((0, 0), *((i, j) for i, j in cut(read)), (len(read), len(read)))
    found = tokens(read, tuple(map(str, range(len(offsets)))), offsets, originals)
    assert found.text == plain
    assert [plain[start:end] for start, end in found.offsets] == [
        "", *(originals.get(read[i:j], read[i:j]) for i, j in cut(read)), ""
    ]  # fmt: skip
    assert all(word.text == plain[word.start : word.end] for word in found.words if not word.special)


def cut(text: str) -> list[tuple[int, int]]:
    """Returns the pieces of a text: symbols, and single characters."""
    places, at = [], 0
    while at < len(text):
        end = text.index(">", at) + 1 if text[at] == "<" else at + 1
        places.append((at, end))
        at = end
    return places

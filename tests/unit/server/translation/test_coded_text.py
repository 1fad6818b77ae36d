"""Coded text: what travels between processes is read as it was written, with each code once."""

from __future__ import annotations

import pytest

from server.text.syntax import html
from server.text.tagged import Tagged
from server.translation.coded_text import MARK, coded, decoded, pieces, written
from tests.support.texts.tagged_texts import TaggedTexts


@pytest.mark.parametrize("seed", range(20))
def test_coded_texts_are_read_as_they_were_written(seed: int) -> None:
    texts = TaggedTexts(seed)
    for _ in range(20):
        source = html.parse(texts.next().text)
        read = decoded(coded(source))
        given, found = [
            [(code[:2], *code[3:5], *code[6:]) for code in each.codes] for each in (source, read)
        ]
        assert (read.text, sorted(found)) == (source.text, sorted(given))
        assert read.write() == coded(read) == coded(source)
        assert [piece for piece in pieces(coded(source)) if isinstance(piece, int)] == list(
            range(len(source.codes))
        )
        assert written(coded(source), source.codes) == source.write(str)


@pytest.mark.parametrize("text", ["a\x02-0 b\x03c", "\x02", "\x03\x02<5 i\x03", "\x02|1 br"])
def test_a_text_that_looks_like_a_mark_has_no_codes(text: str) -> None:
    made = coded(Tagged(text))
    assert not decoded(made).codes and not MARK.search(made)
    assert made == text.replace("\x02", "").replace("\x03", "")

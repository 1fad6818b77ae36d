"""Sentences and separators together are the text; over-long sentences are split at punctuation."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text import segmentation
from server.text.segmentation import (
    BREAKS,
    BULLET,
    LABEL,
    LAYOUT,
    cut_text,
    goes_on,
    split_long_sentence,
    split_sentences,
)
from tests.support.texts.matched import marked, unmarked

LANGUAGES = ["en", "de", "fr", "es", "zh", "ja", "ru", "xx", "pt-BR"]
PIECES = [
    *"Hello world.|Mr. Smith|e.g.|3.14|...|你好| |\n|\t|?|!|。|\n\n|  |   |\r\n|\x00|\u2028".split(
        "|"
    ),
    *"---| *** |\x1b[31m|a) red|(ii) |3.2 The".split("|"),
]
text_pieces = st.sampled_from(PIECES)
texts = st.text(max_size=200) | st.lists(text_pieces | st.text(max_size=3), max_size=40).map(
    "".join
)


@given(texts, st.sampled_from(LANGUAGES))
def test_sentences_and_separators_are_the_text(text, language):
    done = 0
    for start, end in split_sentences(text, language):
        assert done <= start < end
        separator = LAYOUT.sub("", text[done:start]).strip()
        marker = LABEL.sub("", f"{separator} The", count=1)
        assert marker.strip() == "The" or BULLET.match(marker)
        assert text[start:end] == text[start:end].strip()
        assert not BREAKS.search(text[start:end])
        done = end
    assert LAYOUT.sub("", text[done:]).strip() == ""


@pytest.mark.parametrize(
    "row",
    [
        "⟦One.⟧ ⟦Two!⟧  ⟦Three?⟧",
        "- [ ] ⟦Buy milk⟧\n* [x] ⟦Read⟧\n- ⟦[a] b⟧",
        "  ⟦indented⟧\n\n\n\t⟦next line⟧\r\n⟦last⟧",
        "⟦Mr. Smith came at 3.14 p.m. yesterday.⟧",
        "⟦name⟧\t⟦value⟧",
        "⟦Name⟧    ⟦Age⟧   ⟦City⟧",
        "--- ⟦One⟧ ---",
        "\x1b[1;31m⟦red⟧\x1b[0m ⟦car⟧",
        "a) ⟦red⟧ b) ⟦green,⟧ c) ⟦blue⟧",
        "(1)⟦The dog⟧ (2)⟦The cat (3) old⟧",
        "(1) ⟦The dog (see (2)The) and⟧",
        "(ii) ⟦see it in (a) and b⟧",
        "⟦See a) here⟧",
        "3.2 ⟦The house⟧",
        "- [ ] ⟦Buy milk⟧",
        "> > * [x] iii. ⟦Über uns⟧",
        "i. ⟦The beginning⟧\nb. ⟦Red⟧",
        "Q: ⟦Who?⟧\nA: ⟦She.⟧\n-- ⟦Not I⟧",
        "⟦d. h. sie.⟧\n⟦i. e. she.⟧\n⟦e. V. ist.⟧",
        "⟦It ended.⟧⟦The next began.⟧",
        "⟦Two java.lang.String and com.example.app.Main.⟧ ⟦Three⟧",
        "⟦3.5 million people⟧",
        "\n \n",
    ],
)
def test_text_is_split_into_sentences(row):
    assert marked(unmarked(row), split_sentences(unmarked(row), "en")) == row


@given(st.text(st.sampled_from("ab ,;."), min_size=1, max_size=200), st.integers(1, 20))
def test_parts_of_a_long_sentence_are_within_the_limit_and_contain_all_of_it(text, limit):
    spans = split_long_sentence(text, range(len(text)), limit)
    assert all(0 < end - start <= limit for start, end in spans)
    assert "".join(text[start:end] for start, end in spans).replace(" ", "") == text.replace(
        " ", ""
    )
    assert spans == sorted(spans)


@given(
    st.lists(st.sampled_from(["ab ", "a, ", "<a, b. c>", "<x>"]), min_size=1, max_size=40),
    st.integers(1, 20),
)
def test_a_long_sentence_is_not_split_within_whole_parts(parts, limit):
    text = "".join(parts)
    whole = [found.span() for found in re.finditer("<.*?>", text)]
    spans = split_long_sentence(text, range(len(text)), limit, whole)
    assert "".join(text[start:end] for start, end in spans).replace(" ", "") == text.replace(
        " ", ""
    )
    assert not [
        (start, end)
        for start, end in spans
        for first, last in whole
        if first < start < last or first < end < last
    ]
    assert all(0 < end - start <= limit or (start, end) in whole for start, end in spans)


@pytest.mark.parametrize(
    ("text", "limit", "first"),
    [
        ("aaa. bbb, ccc ddd eee", 12, "aaa."),
        ("aaa bbb, ccc ddd eee", 14, "aaa bbb,"),
        ("aaa bbb ccc ddd eee", 9, "aaa bbb"),
        ("aaaaaaaaaaaaaaaaaaaa", 7, "aaaaaaa"),
    ],
)
def test_a_long_sentence_is_split_at_the_best_punctuation(text, limit, first):
    start, end = split_long_sentence(text, range(len(text)), limit)[0]
    assert text[start:end] == first


@given(st.text("ab .\n。", max_size=200), st.integers(1, 30))
def test_the_pieces_of_a_long_text_are_the_text(text: str, limit: int):
    pieces = cut_text(text, limit)
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= limit for piece in pieces) or text == ""


def test_a_long_text_is_cut_after_sentences():
    text = "One is 3.14 here. " * 100
    assert {piece[-2:] for piece in cut_text(text, 50)} == {". "}
    assert {len(piece) for piece in cut_text("x" * 95, 30)} == {30, 5}


@pytest.mark.parametrize(
    ("text", "limit", "first"),
    [
        (
            "the dog and the cat, tired, and wet from rain, slept here",
            50,
            "the dog and the cat, tired,",
        ),
        ("he saw the dog because it was near the old house", 40, "he saw the dog"),
        ("it costs 7,000 euros per year", 12, "it costs"),
        ("it begins at 10:30 tomorrow", 17, "it begins at"),
        ("es kostet 3,50 Euro im Jahr", 14, "es kostet"),
        ("他说,你好世界,我们走吧", 8, "他说,你好世界,"),
        ("he came (see e.g.this one there) yesterday", 20, "he came (see"),
    ],
)
def test_a_long_sentence_is_split_before_a_clause_and_not_within_a_number(text, limit, first):
    start, end = split_long_sentence(text, range(len(text)), limit)[0]
    assert text[start:end] == first


@pytest.mark.parametrize(
    ("part", "following", "expected"),
    [
        ("he came,", "and she went", True),
        ("he came", "Anna went", True),
        ("he came;", "She went", True),
        ("he said:", "She went", False),
        ("he said:", "she went", True),
        ("(Peru, ...)", "lead to it", True),
        ("“He came.”", "She went", False),
        ("Er kam。", "Sie ging", False),
    ],
)
def test_a_sentence_goes_on_between_two_parts(part, following, expected):
    assert goes_on(part, following) is expected


def test_equal_lines_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    library = segmentation.segment
    monkeypatch.setattr(
        segmentation, "segment", lambda language, line: read.append(line) or library(language, line)
    )
    text = "One. Two.\n* One. Two.\nThree!\n" * 50
    assert [text[start:end] for start, end in split_sentences(text, "en")] == [
        "One.",
        "Two.",
        "One.",
        "Two.",
        "Three!",
    ] * 50
    assert len(read) == 1  # one without a mark within it needs no library


@pytest.mark.parametrize("language", ["en", "de", "fr", "es", "el", "ja", "hy", "xx"])
def test_the_library_finds_one_sentence_where_it_is_not_asked(language: str) -> None:
    rng = random.Random(7)
    latin = [chr(code) for code in range(0x20, 0x250)]
    words = [*"Dr A No 5 x (b) Hello ein ¿Qué « » ! 1) : ;".split(), '"']
    for _ in range(3_000):
        pieces = [rng.choice((rng.choice(words), rng.choice(latin))) for _ in range(9)]
        line = rng.choice(("", " ")).join(pieces).strip() + rng.choice(("", ".", "?"))
        if line and segmentation._ONE_SENTENCE.fullmatch(line):
            assert len(segmentation.segment(language, line)) == 1, line

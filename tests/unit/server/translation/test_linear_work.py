"""Preparation takes linear time: twice the text is about twice the work, and not four times,
counted in lines of Python and in characters that are given to the library of sentences."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.errors import PayloadTooLarge
from server.text import segmentation
from server.text.glossary import Entry, TermIndex
from server.text.language_id import LanguageDetector
from server.translation import translator
from server.translation.preparation import prepare
from server.translation.types import TranslationRequest
from tests.support.engine.fake_engine import FakeEngine, fake_catalog
from tests.support.engine.translating import translated
from tests.support.texts.matched import matches

CHARACTERS, GROWTH = 12_000, 3
"""Shorter texts may be one sentence or one span, which is less work than its parts."""
FRAGMENTS = (
    "a", "a ", "a. ", "a\n", "the cat ", "Mr. ", "{", "}", "[", "(", "<", "<b>", "</b>",
    "<a>x</a> ", "<!--", "&amp;", "*a **b ", "[a](b) ", "``a ` ", "%s", "$a ", "\\", "a@b.",
    "www.a ", "https://a.b/", "{n, plural, one {a} other {b}} ", "{$n->[a]", "'{", "1", "1 000 ",
    "a-", "a_", "/a", '"', "a) ", "猫。", "😀", "á", "́", "м ", "\u001b[0m", "---", "   ",
    "{% if a %}",
)  # fmt: skip
CATALOG = fake_catalog()
DETECTOR = LanguageDetector(CATALOG.sources)
KEPT = tuple("cat " * count + "dog" for count in range(1, 40))
GLOSSARY = TermIndex(
    [Entry(f"the cat {number}", f"Katze {number}") for number in range(200)] + [Entry("b", "B")]
)


def work(text: str, **fields: Any) -> int:
    """Returns the work of preparing a text."""
    request = TranslationRequest(texts=(text,), source="en", target="de", **fields)
    return counted(lambda: prepare(request, CATALOG, DETECTOR))


def counted(function: Callable[[], object]) -> int:
    """Returns the lines of Python that a function runs, and the characters that the library
    gets."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return trace

    def segment(language: str, line: str) -> list[str]:
        nonlocal count
        count += len(line) ** 2 // 1_000
        return list(library(language, line))

    library, segmentation.segment = segmentation.segment, segment
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
        segmentation.segment = library
    return count


def is_linear(fragments: Sequence[str], **fields: Any) -> None:
    fragment = "".join(fragments)
    once, more = [work((fragment * size)[:size], **fields) for size in (CHARACTERS, 2 * CHARACTERS)]
    assert more <= GROWTH * once + 20_000, (fragment, once, more)


@pytest.mark.slow
@settings(max_examples=15, derandomize=True)
@given(
    st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=4),
    st.sampled_from(
        [
            {},
            {"format": "html"},
            {"do_not_translate": KEPT},
            {"glossary": GLOSSARY},
            {"split": "none"},
        ]
    ),
)
def test_repeated_fragments(fragments: list[str], fields: dict[str, Any]) -> None:
    is_linear(fragments, **fields)


@pytest.mark.parametrize(
    "fragment",
    ["See <b>%s</b>. ", "1 km, a@b.de! ", "{n, plural, one {a} other {b}} ", "a<sup>1</sup> b<br>"],
)
@pytest.mark.parametrize("number", ["", "{} "], ids=["equal", "different"])
def test_answers_take_linear_work(
    fragment: str, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator, "THREAD_CHARACTERS", CHARACTERS)  # a trace sees one thread
    format = "html" if "<br>" in fragment else "text"
    parts = [number.format(place) + fragment for place in range(200)]
    once, more = [
        counted(partial(translated, FakeEngine(), "".join(parts[:size]), "en", "de", format=format))
        for size in (100, 200)
    ]
    assert more <= GROWTH * once, (once, more)


@pytest.mark.parametrize("fragment", ["a. ", "これはペンです。", "a "])
def test_a_long_line(fragment: str) -> None:
    is_linear([fragment])


def test_a_long_line_has_the_sentences_of_a_short_one() -> None:
    sentences = [
        "The cat sleeps at home.",
        "It is 3.5 years old, i.e. young!",
        "“Is it? Yes.” she said.",
    ] * 200
    spans = segmentation.split_sentences(" ".join(sentences), "en")
    assert [" ".join(sentences)[start:end] for start, end in spans] == sentences
    endless = "the cat sleeps " * 1_000
    assert segmentation.split_sentences(endless + "now. It wakes.", "en")[1:] == [
        (len(endless) + 5, len(endless) + 14)
    ]


@pytest.mark.parametrize(
    ("kept", "text", "found"),
    [
        (("a b", "a", "a b c"), "a b c, a b, a, ab", ["a b c", "a b", "a"]),
        (("C++", "C"), "C++ C Cat C#", ["C++", "C", "C"]),
        (("#", "#a"), "#a # #b", ["#a", "#"]),
        (("a#", "ab"), "a#b ab abc", ["a#", "ab"]),
        ((" ", ""), "a b", []),
        (("(x)", "(x", "."), "(x) (xy.", ["(x)", "."]),
    ],
)
def test_kept_words_are_whole_and_the_longest(
    kept: tuple[str, ...], text: str, found: list[str]
) -> None:
    assert [
        text[match.start : match.end] for match in matches(text, kept) if match.kind == "kept"
    ] == found


def test_terms_that_overlap_too_much_are_refused_in_a_long_text_only() -> None:
    terms = TermIndex([Entry("a " * 149 + "b", "B"), Entry("a c", "C")])
    with pytest.raises(PayloadTooLarge, match="overlap"):
        terms.find("a " * 20_000)
    assert [match.entry.target for match in terms.find("a " * 500 + "b a c")] == ["B", "C"]
    assert terms.find("the cat is a cat " * 5_000) == []

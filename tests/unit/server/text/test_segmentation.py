"""Segmentation: nothing is ever lost, separators stay, over-long sentences are cut where it hurts least."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text.segmentation import BREAKS, split_long_sentence, split_sentences
from server.text.unicode_scripts import is_translatable
from server.translation.catalog import Leg
from server.translation.segments import segment_text
from tests.support.fake_engine import fake_model

LANGUAGES = ["en", "de", "fr", "es", "zh", "ja", "ru", "xx", "pt-BR"]
text_pieces = st.sampled_from(
    [
        "Hello world.",
        " ",
        "\n",
        "\n\n",
        "\t",
        "  ",
        "Mr. Smith",
        "e.g.",
        "3.14",
        "?",
        "!",
        "...",
        "。",
        "你好",
        "\r\n",
        "\x00",
        "\u2028",
    ]
)
texts = st.text(max_size=200) | st.lists(text_pieces | st.text(max_size=3), max_size=40).map("".join)


@given(texts, st.sampled_from(LANGUAGES))
def test_sentences_and_separators_are_the_text(text, language):
    done = 0
    for start, end in split_sentences(text, language):
        assert done <= start < end
        assert not text[done:start].strip() or BREAKS.sub("", text[done:start]).strip() == ""
        assert text[start:end] == text[start:end].strip()
        assert not BREAKS.search(text[start:end])
        done = end
    assert BREAKS.sub("", text[done:]).strip() == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two!  Three?", ["One.", "Two!", "Three?"]),
        ("  indented\n\n\n\tnext line\r\nlast", ["indented", "next line", "last"]),
        ("Mr. Smith came at 3.14 p.m. yesterday.", ["Mr. Smith came at 3.14 p.m. yesterday."]),
        ("name\tvalue", ["name", "value"]),
        ("\n \n", []),
    ],
)
def test_sentences_of_ordinary_texts(text, expected):
    assert [text[start:end] for start, end in split_sentences(text, "en")] == expected


@given(st.text(st.sampled_from("ab ,;."), min_size=1, max_size=200), st.integers(1, 20))
def test_cutting_loses_nothing_and_respects_the_limit(text, limit):
    spans = split_long_sentence(text, range(len(text)), limit)
    assert all(0 < end - start <= limit for start, end in spans)
    assert "".join(text[start:end] for start, end in spans).replace(" ", "") == text.replace(" ", "")
    assert spans == sorted(spans)


@pytest.mark.parametrize(
    ("text", "limit", "first"),
    [
        ("aaa. bbb, ccc ddd eee", 12, "aaa."),
        ("aaa bbb, ccc ddd eee", 14, "aaa bbb,"),
        ("aaa bbb ccc ddd eee", 9, "aaa bbb"),
        ("aaaaaaaaaaaaaaaaaaaa", 7, "aaaaaaa"),
    ],
)
def test_a_cut_falls_at_the_best_mark(text, limit, first):
    start, end = split_long_sentence(text, range(len(text)), limit)[0]
    assert text[start:end] == first


@given(texts, st.integers(4, 30))
def test_a_plan_fits_the_model_and_joins_to_the_text(text, limit):
    leg = Leg(fake_model(max_length=limit), "en", "de")
    made = segment_text(text, leg)
    assert all(len(segment.ids) <= limit for segment in made.segments)
    assert made.join([segment.text for segment in made.segments]) == text


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Hello", "en", True),
        ("42 + 1 = 43!", "en", False),
        ("😀🎉", "en", False),
        ("https://example.org/a?b=c", "en", False),
        ("someone@example.org, www.example.org", "en", False),
        ("see https://example.org", "en", True),
        ("你好", "en", False),
        ("你好", "zh", True),
        ("привет", "ru", True),
        ("Éclair", "fr", True),
        ("ﬁne", "en", True),
        ("ＡＢＣ", "en", True),
        ("", "en", False),
    ],
)
def test_what_is_translated_and_what_is_copied(text, language, expected):
    assert is_translatable(text, language) is expected

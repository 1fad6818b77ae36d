"""Addresses, emoji, foreign words and capitals come through any model."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.tokenizer import Encoding
from server.engine.client.engine_client import ALIGNMENTS_AT_ONCE
from server.text.placeholders import (
    NAME,
    byte_fallback_spans,
    do_not_translate_spans,
    is_all_caps,
    mask,
    may_hold_name,
    merge_spans,
    restore,
    to_sentence_case,
)
from server.text.unicode_scripts import ADDRESS, has_letters, is_translatable, may_hold_address

SOLID = ["A4", "notes.txt", "https://example.org/a?b=c#d", "me@example.org", "😀", "👩‍👩‍👧", "🇩🇪", "www.example.org", "→"]
parts = st.lists(st.sampled_from([*SOLID, "word", "two words", ".", ",", " ", "  ", "(", ")", "!"]), max_size=12)


@given(parts.map("".join) | st.text(max_size=60) | st.text("@wW.:/a1 \u017f", max_size=20))
def test_the_quick_look_for_addresses_misses_none(text):
    assert may_hold_address(text) or ADDRESS.search(text) is None
    assert may_hold_address(text) or is_translatable(text, "en") == has_letters(text, "en")


@given(parts.map("".join) | st.text("aB4_-.@/ \u0663", max_size=50) | st.text("a.", min_size=38, max_size=44))
def test_the_quick_look_for_names_misses_none(text):
    assert may_hold_name(text) or NAME.search(text) is None


@given(parts.map("".join) | st.text(max_size=60))
def test_taking_out_and_putting_back_is_the_identity(text):
    read, marks = mask(text, do_not_translate_spans(text))
    assert restore(marks, read, read, ()) == text
    assert do_not_translate_spans(read) == [] or not marks or len(read) < len(text)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8))
def test_merged_spans_are_in_order_and_apart(spans):
    result = merge_spans([(min(span), max(span)) for span in spans])
    assert all(start < end for start, end in result)
    assert all(left[1] <= right[0] for left, right in pairwise(result))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See https://example.org/x.", ["https://example.org/x"]),
        ("(www.example.org)", ["www.example.org"]),
        ("mail me@example.org, please", ["me@example.org"]),
        ("thanks @ada!", ["@ada"]),
        ("fine 😀👍🏽 day", ["😀👍🏽"]),
        ("paper A4, COVID-19 and the 21st", ["A4", "COVID-19"]),
        ("open report_v2.pdf on example.org.", ["report_v2.pdf", "example.org"]),
        (f"he cried {'a' * 50}!", ["a" * 50]),
        ("I am here.where are you", []),
        ("nothing here", []),
        ("3 < 4 and a.b", []),
    ],
)
def test_what_is_protected(text, expected):
    assert [text[start:end] for start, end in do_not_translate_spans(text)] == expected


def test_only_what_is_spelled_in_bytes_is_unspeakable():
    text = "I like 你好 and é"
    spelled = Encoding((1, 2, 3, 4), ("▁I▁like▁", "<0xE4>", "▁and▁", "<0xC3>"), ((0, 7), (7, 9), (9, 14), (14, 15)))
    assert byte_fallback_spans(text, "en", spelled) == [(7, 9)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HELLO WORLD", True),
        ("NASA", False),
        ("THE USA!", True),
        ("A B C D", False),
        ("Hello WORLD", False),
        ("12 34", False),
    ],
)
def test_capitals(text, expected):
    assert is_all_caps(text) is expected


def test_small_letters():
    assert to_sentence_case("WHAT SHALL I DO?") == "What shall I do?"


@pytest.mark.parametrize("sentence", ["Look at {} now.", "{} is it", "is it {}", "a {} b {} c"])
@pytest.mark.parametrize("solid", SOLID)
def test_every_translation_holds_it(client, sentence, solid):
    text = sentence.format(solid, solid)
    answer = client.post("/translate", json={"q": text, "source": "en", "target": "de"}).json()["translatedText"]
    assert answer.count(solid) == text.count(solid)
    assert sorted(answer) == sorted(text)


def test_capitals_are_read_small_and_written_large(client, engine):
    asked = {"q": "WHERE IS IT? https://example.org/Path", "source": "en", "target": "de", "details": True}
    answer = client.post("/translate", json=asked).json()
    assert "TI SI EREHW" in answer["translatedText"] and "https://example.org/Path" in answer["translatedText"]
    [[first, *_]] = answer["details"]["sentences"]
    assert first["source"].startswith("WHERE")


def test_one_can_look_at_what_the_model_read(client):
    asked = {"q": "Look 😀 here https://example.org now", "source": "en", "target": "de"}
    id = client.post("/translate", json=asked).json()["id"]
    found = client.get("/attention", params={"id": id}).json()
    assert found["source"]["text"] == "Look 😀 here now" or found["source"]["text"] == "Look here now"
    assert len(found["cross"][0][0][0]) == len(found["source"]["pieces"])


def test_what_is_spelled_in_bytes_takes_the_addresses_along(live):
    text = "the dog 你好 https://example.org/x sleeps 😀"
    answer = live.post("/translate", {"q": text, "source": "en", "target": "de", "max_length": 5}).json()[
        "translatedText"
    ]
    for solid in ("你好", "https://example.org/x", "😀"):
        assert answer.count(solid) == 1


def test_many_texts_with_markup_never_crowd_the_worker(client, engine):
    crowd = []
    attend = engine.attend

    def counting(*arguments, **options):
        future = attend(*arguments, **options)
        crowd.append(future)
        future.add_done_callback(crowd.remove)
        assert len(crowd) <= ALIGNMENTS_AT_ONCE
        return future

    engine.attend, engine.delay = counting, 0.002
    texts = [f"one <b>two</b> three {'x' * i} <i>four</i> five" for i in range(40)]
    answer = client.post("/translate", json={"q": texts, "source": "en", "target": "de", "format": "html"})
    assert answer.status_code == 200 and len(engine.attended) == 40

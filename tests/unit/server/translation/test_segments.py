"""Segments fit the model and together with the separators are the text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.models.discovery import read_model
from server.text.finishing import unchanged
from server.translation.candidates import lost
from server.translation.catalog import Leg
from server.translation.preparation import segment_text, with_codes
from tests.support.engine.fake_engine import fake_model

MODEL = read_model(Path(__file__).resolve().parents[4] / "weights" / "general-en-de-fr-es")
PIECES = [
    *["Hello world.", "Mr. Smith", "e.g.", "3.14", "?", "!", "...", "。", "你好"],
    *[" ", "  ", "\n", "\n\n", "\r\n", "\t", "\x00", "\u2028"],
]
texts = st.text(max_size=200) | st.lists(
    st.sampled_from(PIECES) | st.text(max_size=3), max_size=40
).map("".join)


@given(texts, st.integers(4, 30))
def test_segments_fit_the_model_and_join_to_the_text(text, limit):
    leg = Leg(fake_model(max_length=limit), "en", "de")
    segmented = segment_text(text, leg)
    assert all(len(segment.ids) <= limit for segment in segmented.segments)
    assert (
        segmented.join([unchanged(segment.tagged) for segment in segmented.segments]).write()
        == text
    )


@pytest.mark.parametrize(
    ("source", "text", "target", "masked"),
    [
        ("de", "Erdoğans Partei", "Erdoğan's party", None),
        ("de", "Erdoğans Partei", "Erdoan's party", ["Erdoğans"]),
        ("fr", "Œuvre d'art d'Israël", "Work of art of Israel", None),
        ("en", "A Chișinău 5", "A Chi... 5", ["Chișinău"]),
        ("en", "The CNN met the HMC.", "Die CN traf die MC.", ["CNN", "HMC"]),
        ("en", "The GDPR is old.", "Die BIPDR ist alt.", ["GDPR"]),
        ("de", "Die UNO und die USA.", "The UN and the US.", None),
        ("fr", "L'OTAN et le VIH au siècle.", "NATO and HIV in the XX.", None),
        ("en", "THANK YOU FOR IT, Mob.", "DANK DIRF.", None),
    ],
)
def test_a_damaged_name_is_masked(source, text, target, masked):
    leg = Leg(MODEL, source, "de" if source == "en" else "en")
    [segment] = segment_text(text, leg).segments
    found = with_codes(segment, lost(segment, target, leg) or (), leg)
    assert (found and [code.equiv for code in found.tagged.codes]) == masked


def test_lost_words_of_a_foreign_name_are_masked_and_words_of_the_language_are_not():
    leg, chance = Leg(MODEL, "de", "en"), random.Random(48)
    starts, ends = "b ch d g kh l m n ph th tr v".split(), "n ng m t c".split()
    for _ in range(100):
        name = [
            chance.choice(starts) + chance.choice("ếộửằảốị") + chance.choice(ends)
            for _ in range(chance.randint(1, 3))
        ]
        name.insert(chance.randrange(len(name) + 1), chance.choice(("bún", "phò", "mì")))
        [segment] = segment_text(f"Der König {' '.join(name)} Köln ist alt.", leg).segments
        assert lost(segment, f"The King {' '.join(name)} Köln is old.", leg) is None
        found = with_codes(segment, lost(segment, "The Köln is old.", leg) or (), leg)
        assert [code.equiv for code in found.tagged.codes] == name


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("Novak Đoković won in Łódź.", ["Đoković", "Łódź"]),
        ("ĐOKOVIĆ WON.", ["ĐOKOVIĆ"]),
        ("Öl, Ça, África and Noël", []),
        ("two houses† at 5 °C, 20 €", ["†", "°C", "€"]),
        ("the rule p<0.05 and a && b", ["p<0.05", "a && b"]),
        ("Thai สวัสดี ครับ and नमस्ते", ["สวัสดี ครับ", "नमस्ते"]),
        ("I ❤️ you 👩‍👩‍👧", ["❤️", "👩‍👩‍👧"]),
    ],
)
def test_what_the_vocabulary_cannot_write_is_a_code(text, codes):
    segments = segment_text(text, Leg(MODEL, "en", "de")).segments
    assert [code.equiv for segment in segments for code in segment.tagged.codes] == codes

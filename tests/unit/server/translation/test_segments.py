"""Segments fit the model and together with the separators are the text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.translation.catalog import Leg
from server.translation.model_discovery import read_model
from server.translation.passes.masked_names import masked_retry
from server.translation.preparation import segment_text
from tests.support.engine.fake_engine import fake_model

PIECES = [
    *["Hello world.", "Mr. Smith", "e.g.", "3.14", "?", "!", "...", "。", "你好"],
    *[" ", "  ", "\n", "\n\n", "\r\n", "\t", "\x00", "\u2028"],
]
texts = st.text(max_size=200) | st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40).map("".join)


@given(texts, st.integers(4, 30))
def test_segments_fit_the_model_and_join_to_the_text(text, limit):
    leg = Leg(fake_model(max_length=limit), "en", "de")
    segmented = segment_text(text, leg)
    assert all(len(segment.ids) <= limit for segment in segmented.segments)
    assert segmented.join([segment.text for segment in segmented.segments]) == text


@pytest.mark.parametrize(
    ("source", "text", "target", "masked"),
    [
        ("en", "Novak Đoković won.", "Novak ąoković gewann.", ["Đoković"]),
        ("en", "Novak Đoković won.", "Novak Đoković gewann.", None),
        ("en", "ĐOKOVIĆ WON.", "Đoković gewann.", None),
        ("de", "Erdoğans Partei", "Erdoğan's party", None),
        ("fr", "Œuvre de Łódź", "Work of Lodz", ["Łódź"]),
        ("fr", "Œuvre d'art d'Israël", "Work of art of Israel", None),
        ("en", "© Chișinău 5", "© Chi... 5", ["©", "Chișinău", "5"]),
    ],
)
def test_a_lost_name_with_letters_that_the_vocabulary_lacks_is_masked(source, text, target, masked):
    model = read_model(Path(__file__).resolve().parents[4] / "weights" / "general-en-de-fr-es")
    [segment] = segment_text(text, Leg(model, source, "de" if source == "en" else "en")).segments
    found = masked_retry(segment, target, Leg(model, source, "de" if source == "en" else "en"))
    assert (found and [text[span.start : span.end] for span in found.spans]) == masked

"""Segments fit the model and together with the separators are the text."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from server.translation.catalog import Leg
from server.translation.segments import segment_text
from tests.support.fake_engine import fake_model

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


def test_sentences_beyond_the_segment_length_are_divided():
    model = dataclasses.replace(fake_model(), segment_length=40, max_length=200)
    text = "the first part is here, the second part is there, and the third part is nowhere"
    parts = segment_text(text, Leg(model, "en", "de")).segments
    assert len(parts) > 1
    assert all(len(part.ids) <= 40 for part in parts)
    assert parts[0].text.endswith(",")  # divided at punctuation
    assert len(segment_text(text, Leg(fake_model(max_length=200), "en", "de")).segments) == 1

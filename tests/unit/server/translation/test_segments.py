"""Segments fit the model and together with the separators are the text."""

from __future__ import annotations

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

"""The behaviour set is complete, has no duplicates, and does not change."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from benchmarks.quality.behaviour.sentences import FILE, LANGUAGES, read_sentences


def test_the_set_has_200_different_sentences_in_every_language() -> None:
    sentences = read_sentences()
    assert len(sentences) == 200
    assert len({sentence.id for sentence in sentences}) == 200
    for language in LANGUAGES:
        texts = [sentence.texts[language] for sentence in sentences]
        assert all(text and text == text.strip() for text in texts)
    assert len({sentence.texts["en"] for sentence in sentences}) == 200


def test_the_set_is_frozen() -> None:
    assert (
        hashlib.sha256(FILE.read_bytes()).hexdigest()
        == "27f06c317fd3acf20446798c99cbc422201da686bd16f2134aee41dad0111923"
    )


def test_a_line_without_six_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sentences.tsv").write_text("a\tb\tc\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"Line 1 of sentences\.tsv has 3 columns"):
        read_sentences(tmp_path / "sentences.tsv")

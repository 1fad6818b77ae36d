"""The quality benchmark: scores, development sets, and a model folder measured end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.common.development_sets import read_sets
from benchmarks.common.model_loader import open_model
from benchmarks.quality import __main__ as quality
from model.search.options import DecodingOptions
from model.training.loop.evaluate import score, score_directions, translate_texts


def test_references_have_a_score_of_100_against_themselves() -> None:
    texts = ["The small house is green.", "A garden is red and very small."]
    scores = score(texts, texts, "en")
    assert scores.bleu == pytest.approx(100.0)
    assert scores.chrf == pytest.approx(100.0)
    assert "tok:13a" in scores.bleu_signature
    assert "tok:zh" in score(texts, texts, "zh-Hans").bleu_signature


def test_an_empty_list_has_no_score() -> None:
    with pytest.raises(ValueError, match="0 translations"):
        score([], [], "en")


def test_a_set_is_read_in_both_directions(development: Path) -> None:
    forth, back = read_sets(development, ["small"], limit=4)
    assert (forth.direction, back.direction) == ("en-de", "de-en")
    assert forth.sources == back.references
    assert len(forth.sources) == 4
    with pytest.raises(ValueError, match="newstest2013"):
        read_sets(development, ["newstest2013"])


def test_texts_translate_equally_alone_and_together(weights: Path, development: Path) -> None:
    texts = read_sets(development)[0].sources
    opened = open_model(weights, slots=4, threads=1)
    options = DecodingOptions(max_length=12)
    together = translate_texts(opened.backend, opened.tokenizer, opened.config, texts, "de", options).texts
    alone = [
        translate_texts(opened.backend, opened.tokenizer, opened.config, [text], "de", options).texts[0]
        for text in texts
    ]
    assert list(together) == alone


def test_a_source_beyond_the_maximum_is_cut_and_counted(weights: Path) -> None:
    opened = open_model(weights, slots=2, threads=1)
    texts = ["house " * 200, "house"]
    found = translate_texts(opened.backend, opened.tokenizer, opened.config, texts, "de", DecodingOptions(max_length=4))
    assert found.cut == 1
    assert len(found.texts) == 2


def test_directions_without_pairs_are_skipped(weights: Path) -> None:
    opened = open_model(weights, slots=2, threads=1)
    pairs = {("en", "de"): [("house", "Haus")], ("de", "en"): []}
    found = score_directions(opened.backend, opened.tokenizer, opened.config, pairs, DecodingOptions(max_length=4))
    assert set(found) == {("en", "de")}


def test_a_folder_is_measured(weights: Path, development: Path, tmp_path: Path) -> None:
    output = tmp_path / "quality.json"
    command = ["--model", str(weights), "--data", str(development), "--limit", "2", "--search", "greedy", "beam2"]
    assert quality.main([*command, "--json", str(output)]) == 0
    results = json.loads(output.read_text(encoding="utf-8"))
    assert {(row["direction"], row["search"]) for row in results["rows"]} == {
        ("en-de", "greedy"), ("de-en", "greedy"), ("en-de", "beam2"), ("de-en", "beam2"),
    }  # fmt: skip
    assert all(row["sentences"] == 2 for row in results["rows"])


def test_an_unknown_search_is_an_error_of_one_sentence(
    weights: Path, development: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--model", str(weights), "--data", str(development), "--search", "fast"]
    assert quality.main(command) == 2
    assert "greedy or beamN" in capsys.readouterr().err

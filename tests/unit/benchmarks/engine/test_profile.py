"""The parts of a profile add up, samples are grouped by kind, and independence counts differing targets."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.common.model_loader import open_model
from benchmarks.engine import independence, profile
from benchmarks.engine.decode_limit import step_weights
from model.config import base


@pytest.mark.slow
def test_the_parts_add_up(weights: Path) -> None:
    options = profile._parser().parse_args(["--model", str(weights), "--batch", "3", "--tokens", "6", "--repeats", "1"])
    found = profile.measure(open_model(weights, slots=3, threads=1), options)
    assert sum(found["parts"].values()) == pytest.approx(1.0)
    assert 1 <= found["rows per step"] <= 3


@pytest.mark.slow
def test_real_sentences_are_drawn_from_all_directions_of_the_model(weights: Path, tmp_path: Path) -> None:
    opened = open_model(weights, engine="native", precision="int8", slots=3, threads=1, shortlist="auto")
    directions = [direction.split("-") for direction in opened.directions]
    texts = ("the dog", "the cat")
    for language in {"xx", *(language for pair in directions for language in pair)} - {"en"}:
        (tmp_path / f"small.en-{language}.tsv").write_text("".join(f"{text}\t{text}\n" for text in texts))
    drawn = profile.sentences(opened, tmp_path, ["small"], 40)
    assert len(drawn) == 40
    assert set(drawn) == {
        opened.tokenizer.encode_ids(text, target, source) for source, target in directions for text in texts
    }


def test_products_of_the_base_model() -> None:
    # per layer: self-attention 4 d^2, cross-attention 2 d^2 (keys and values are cached), feed-forward 2 d d_ff
    assert step_weights(base(32_000)) == 6 * (6 * 512**2 + 2 * 512 * 2048) + 512 * 32_000


def test_samples_are_grouped_by_kind() -> None:
    report = """
    # Overhead  Symbol
    50.00%  [.] attentive::(anonymous namespace)::int8<4, false, true>
    10.00%  [.] attentive::tile_int8(attentive::Int8Block const&)
     3.00%  [.] attentive::TopK::add_panel(int, int, int, float*)
    17.00%  [.] attentive::(anonymous namespace)::attend_head<signed char, 64>
    15.00%  [.] _PyEval_EvalFrameDefault
     5.00%  [k] clear_page_erms
    """
    assert profile.by_kind(report) == {
        "integer and float products": 0.6, "attention": 0.17, "Python and libraries": 0.15, "kernel": 0.05,
        "top-k selection": 0.03,
    }  # fmt: skip


@pytest.mark.slow
def test_independence_is_counted(weights: Path, development: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--model", str(weights), "--data", str(development), "--sets", "small", "--sentences", "6"]
    assert independence.main([*command, "--engine", "torch", "--precision", "float32", "--batch", "3"]) == 0
    assert "| torch" in capsys.readouterr().out

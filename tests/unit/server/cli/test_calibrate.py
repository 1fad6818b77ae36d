"""`attentive calibrate` on the fake engine."""

from __future__ import annotations

import argparse
import dataclasses
import random

import pytest

from model.analysis.confidence import FILE, Confidence
from server.cli import calibrate
from server.errors import InvalidRequest
from tests.support.engine.fake_engine import FakeEngine, fake_model

WORDS = "alpha beta gamma delta house garden water stone light river".split()


def pairs(count: int = 240) -> list[str]:
    """Pairs of a sentence and its reverse, in every second of which most letters differ."""
    numbers = random.Random(0)
    lines = []
    for number in range(count):
        words = " ".join(numbers.choices(WORDS, k=numbers.randint(3, 8)))
        lines.append(f"{words}\t{words[::-1] if number // 2 % 2 else 'x' * len(words)}")
    return lines


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    return dataclasses.replace(fake_model(), folder=tmp_path)


def test_a_calibration_is_written_for_each_direction_of_the_model(
    tmp_path, model, monkeypatch, capsys
):
    monkeypatch.setattr(calibrate, "find_model", lambda *_: model)
    services = calibrate.local_services
    monkeypatch.setattr(
        calibrate,
        "local_services",
        lambda settings, catalog: services(settings, FakeEngine(), catalog),
    )
    (tmp_path / "dev.en-de.tsv").write_text("\n".join(pairs()) + "\n", encoding="utf-8")
    parser = argparse.ArgumentParser()
    calibrate.add_arguments(parser)
    assert (
        calibrate.run(parser.parse_args(["toy", "--pairs", str(tmp_path / "dev.en-de.tsv")])) == 0
    )
    confidence = Confidence.load(tmp_path)
    assert confidence is not None and set(confidence.directions) == {"en-de", "de-en"}
    assert [limits.quality.sentences for limits in confidence.directions.values()] == [240, 240]
    printed = capsys.readouterr().out
    assert FILE in printed and "en-de: 240 sentences, correlation with chrF" in printed


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("dev.en-de.tsv", ("en", "de")),
        ("de-en.tsv", ("de", "en")),
        ("a.b.en-zh-Hans.tsv", ("en", "zh-Hans")),
    ],
)
def test_a_file_names_its_direction(tmp_path, name, direction):
    model = fake_model(pairs=(("en", "de"), ("en", "zh-Hans")))
    assert calibrate.file_direction(tmp_path / name, model) == direction


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("dev.en-it.tsv", "a\tb\n", "does not end with a direction of toy"),
        ("dev.tsv", "a\tb\n", "does not end with a direction of toy"),
        ("dev.en-de.tsv", "a\tb\nno tab\n", "Pair 2 of .* has 1 columns"),
        ("dev.en-de.tsv", None, "cannot be opened: No such file or directory.$"),
        ("dev.en-de.tsv", "ä\tö\n", "is not UTF-8 text.$"),
    ],
)
def test_unusable_files_are_named(tmp_path, model, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content, encoding="latin-1")
    with pytest.raises(InvalidRequest, match=message):
        calibrate.read_pairs([tmp_path / name], model)

"""The alignment benchmark: file formats, detokenisation, error rates and the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.quality import alignment
from benchmarks.quality.gold_alignments import (
    GoldPair,
    Written,
    moved,
    of_tokens,
    quality,
    read_hansards,
    read_xl_wa,
    written,
)
from model.analysis.attention_alignment import FILE, AlignmentChoice, AlignmentHead


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "hansards.en-fr.txt").write_text("the house .   ||| das Haus .  \nsmall ||| klein\n")
    (tmp_path / "hansards.en-fr.gold").write_text("1-1 2-2 1p2 3-3\n1-1\n")
    (tmp_path / "xl-wa-dev.en-es.tsv").write_text("the house\tla casa\t0-0 1-1\n")
    return tmp_path


def test_gold_formats(data: Path) -> None:
    first, second = read_hansards(data)
    assert first.sure == {(0, 0), (1, 1), (2, 2)}
    assert first.possible == first.sure | {(0, 1)}
    assert second == GoldPair(("small",), ("klein",), frozenset({(0, 0)}), frozenset({(0, 0)}))
    [spanish] = read_xl_wa(data)
    assert spanish.sure == spanish.possible == {(0, 0), (1, 1)}


def test_heads_are_chosen_without_gold_alignments(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = tmp_path / "set.en-de.tsv"
    pairs.write_text("the house\tdas Haus\nsmall garden\tklein Garten\n")
    assert alignment.main(["--model", str(weights), "--choose", str(pairs)]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("choice: {") and "| set" not in printed.out
    assert not (weights / FILE).exists()


def words_of(sentence: Written) -> list[str]:
    return [sentence.text[start:end] for start, end in sentence.spans]


def test_tokens_are_detokenised() -> None:
    found = written(["oh", ",", "(", "yes", ")", "!"], "en")
    assert found.text == "Oh, (yes)!"
    assert words_of(found) == ["Oh", ",", "(", "yes", ")", "!"]
    spaced = found.text.replace(",", " ,")
    assert moved(found.spans, found.text, spaced) == ((0, 2), (3, 4), (5, 6), (6, 9), (9, 10), (10, 11))
    assert written("my father 's well - known house".split(), "en").text == "My father's well-known house"


def test_french_elisions_and_contractions_are_restored() -> None:
    tokens = "il se agit de le argent de les gens , pas de le huit à le soir".split()
    found = written(tokens, "fr")
    assert found.text == "Il s'agit de l'argent des gens, pas du huit au soir"
    assert words_of(found)[6] == "des"
    assert found.tokens[6] == (6, 7)
    english = written(["of", "the"], "en")
    assert of_tokens({(1, 6)}, english, found) == {(1, 6), (1, 7)}
    assert sorted(number for numbers in found.tokens for number in numbers) == list(range(len(tokens)))


def test_error_rates() -> None:
    pair = GoldPair(("a", "b"), ("c", "d"), frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)}))
    assert quality([{(0, 0)}], [pair])["aer"] == 0
    assert quality([{(0, 0), (1, 1)}], [pair]) == {"aer": 0, "precision": 100, "recall": 100}
    assert quality([{(0, 1)}], [pair]) == {"aer": 100, "precision": 0, "recall": 0}
    assert quality([set()], [pair])["aer"] == 100


def test_the_command_chooses_heads_measures_and_stores(
    weights: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(alignment.SETS, "hansards", (read_hansards, "en", "de"))
    pairs = data / "set.en-de.tsv"
    pairs.write_text("the house\tdas Haus\nsmall garden\tklein Garten\n")
    output = data / "figures.json"
    arguments = [
        "--model",
        str(weights),
        "--data",
        str(data),
        "--choose",
        str(pairs),
        "--write",
        "--json",
        str(output),
    ]
    try:
        assert alignment.main(arguments) == 0
        stored = AlignmentChoice.load(weights, layers=99, heads=99)
        results = json.loads(output.read_text())
        assert AlignmentChoice(tuple(AlignmentHead(**head) for head in results["choice"]["heads"])) == stored
        assert len(set(stored.heads)) == 3
        assert all(0 <= figure <= 100 for row in results["rows"] for figure in row[3:])
        assert "xl-wa" in capsys.readouterr().err
    finally:
        (weights / FILE).unlink(missing_ok=True)

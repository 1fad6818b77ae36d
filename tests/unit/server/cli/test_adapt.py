"""`attentive adapt` writes a model that a server lists, with a card, unless it is not better: then
only with --force."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from model.model_folder import read_folder
from server.__main__ import main
from server.cli import adapt

WORDS = (
    "house garden bridge letter window teacher river doctor kitchen village winter morning".split()
)
GERMAN = "Haus Garten Brücke Brief Fenster Lehrer Fluss Arzt Küche Dorf Winter Morgen".split()
PAIRS = {
    f"The {one} and the {two} are here today.": f"Heute sind {eins} und {zwei} hier."
    for one, eins in zip(WORDS, GERMAN, strict=True)
    for two, zwei in zip(WORDS, GERMAN, strict=True)
    if one != two
}


@pytest.fixture
def command(tiny_weights, tmp_path, monkeypatch):
    """A command that adapts a tiny model in a folder of its own to PAIRS and a glossary."""
    shutil.copytree(tiny_weights, tmp_path / "weights")
    (tmp_path / "memory.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS.items()))
    (tmp_path / "terms.csv").write_text("house,Haus\nriver,Fluss\n")
    monkeypatch.chdir(tmp_path)
    words = [
        "adapt",
        "tiny",
        "memory.tsv",
        "terms.csv",
        "--from",
        "en",
        "--to",
        "de",
        "--name",
        "mine",
    ]
    return [*words, "--minutes", "0.02", "--weights", "weights"]


def translator(seen: list[set[str]], good: bool):
    async def translate(settings, folder: Path, direction, texts, seconds):
        seen.append(set(texts))
        right = good or folder.name == "tiny"
        return [PAIRS.get(text, text) if right else "falsch" for text in texts]

    return translate


@pytest.mark.slow
def test_a_model_is_written_with_a_card_or_refused(command, monkeypatch, capsys):
    pytest.importorskip("torch")
    seen: list[set[str]] = []
    monkeypatch.setattr(adapt, "translate", translator(seen, good=False))
    assert main(command) == 1 and not Path("weights/mine").exists()
    said = capsys.readouterr().out
    assert (
        "132 pairs and 2 terms" in said
        and "mine is not written; the same command with --force writes it." in said
    )
    assert main([*command, "--force"]) == 0
    card = Path("weights/mine/README.md").read_text()
    assert "It was written with --force." in card and "not better beyond chance" in card
    assert "memory.tsv, terms.csv" in card and "| BLEU |" in card
    assert f"license: {read_folder(Path('weights/tiny')).license}" in card
    assert not list(Path("weights").glob(".adapting-*"))
    capsys.readouterr()
    assert main(["models", "--weights", "weights"]) == 0
    listed = capsys.readouterr().out.splitlines()
    # requests that choose none go to tiny
    assert [line.split()[0] for line in listed] == ["NAME", "tiny", "mine"]
    kept = set.union(*seen) & PAIRS.keys()
    assert len(kept) == 13


@pytest.mark.slow
def test_no_kept_pair_is_trained_on(command, monkeypatch):
    adaptation = pytest.importorskip("training.adaptation.adaptation")
    tasks = []
    monkeypatch.setattr(adaptation, "adapt", tasks.append)
    assert main(command) == 130
    (task,) = tasks
    kept = {sentence.source for sentence in task.sentences if not sentence.general}
    assert len(kept) == 13 and not kept & {pair.source for pair in task.training}
    assert {pair.source for pair in task.training if pair.term} == {"house", "river"}


def test_a_memory_of_long_texts_only_is_refused(command, capsys):
    pytest.importorskip("training.adaptation.adaptation")
    rows = [f"{a} {'The garden. ' * 70}\t{b} {'Der Garten. ' * 70}\n" for a, b in PAIRS.items()]
    Path("memory.tsv").write_text("".join(rows))
    command.remove("terms.csv")
    assert main(command) == 2
    assert "tokens; all of these are longer." in capsys.readouterr().err


def test_without_pytorch_a_sentence_names_the_extra(command, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "training.adaptation.adaptation", raising=False)
    for name in [
        name
        for name in sys.modules
        if name.startswith("training.adaptation.") and name != "model.pairs"
    ]:
        monkeypatch.delitem(sys.modules, name)
    assert main(command) == 1
    assert (
        'needs PyTorch and sacrebleu: pip install "attentive-server[train]"'
        in capsys.readouterr().err
    )

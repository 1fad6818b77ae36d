"""`attentive align` on the fake engine: a line for each pair, from any kind of file, continued
after an interruption."""

from __future__ import annotations

import pytest

from server.__main__ import main
from server.cli import align
from server.cli.local_services import local_services
from server.inspection.text_alignment import PAIRS_AT_ONCE
from tests.support.engine.fake_engine import FakeEngine, fake_catalog

PAIRS = [("the cat", "tac eht"), ("", ""), ("one", ""), ("a b " * 90, "b a"), ("sun", "nus")] * 30
LINES = ["0-1 1-0", "", "", "", "0-0"] * 30
UNIT = '<tu><tuv xml:lang="EN"><seg>{}</seg></tuv><tuv xml:lang="DE"><seg>{}</seg></tuv></tu>'


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Returns a function that runs the command on files in an empty folder and returns its exit
    status."""
    engine = FakeEngine()
    monkeypatch.setattr(
        align, "local_services", lambda settings: local_services(settings, engine, fake_catalog())
    )
    monkeypatch.chdir(tmp_path)
    for side, name in enumerate(("text.en", "text.de")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS))
    (tmp_path / "pairs.tsv").write_text("the cat\ttac eht\n\t\none\t\nsun\tnus\n")
    (tmp_path / "bad.tsv").write_text("the cat\n")
    (tmp_path / "other.tmx").write_text(f"<tmx>{UNIT.format('a', 'b').replace('DE', 'FR')}</tmx>")
    units = "".join(UNIT.format(*pair) for pair in PAIRS)
    (tmp_path / "pairs.tmx").write_text(f"<tmx version='1.4'><header/><body>{units}</body></tmx>")
    (tmp_path / "short.de").write_text("tac eht")

    def call(*words: str) -> int:
        engine.attended.clear()
        return main(["align", *words, "--from", "en", "--to", "de", "--tokenized"])

    call.engine = engine
    return call


def test_every_pair_has_a_line_and_a_run_continues_where_the_last_one_ended(run, tmp_path, capsys):
    output = tmp_path / "links.txt"
    whole = "\n".join(LINES) + "\n"
    for kept in (None, 0, 1, len(whole) // 2, len(whole) - 2, len(whole)):
        if kept is not None:
            output.write_text(whole[:kept])
        assert run("text.en", "text.de", "-o", "links.txt") == 0
        assert output.read_text() == whole
        left = sum(map(bool, whole[whole.rfind("\n", 0, kept or 0) + 1 :].split("\n")))
        # equal pairs in flight share a pass
        assert left / PAIRS_AT_ONCE <= len(run.engine.attended) <= left
    assert "pair 4 has" in capsys.readouterr().err


@pytest.mark.parametrize("options", [(), ("--method", "attention"), ("--model", "toy")])
@pytest.mark.parametrize(
    ("file", "lines"),
    [("pairs.tmx", LINES), ("pairs.tsv", ["0-1 1-0", "", "", "0-0"]), ("other.tmx", [])],
)
def test_files_of_pairs(run, capsys, file, lines, options):
    assert run(file, *options) == 0
    output = capsys.readouterr()
    assert output.out.splitlines() == lines
    assert ("attentive: 0 pairs; left out: 1 in other languages." in output.err) is (
        file == "other.tmx"
    )
    assert run(file, "--probabilities", *options) == 0
    assert [
        [link.split(":")[0] for link in line.split()]
        for line in capsys.readouterr().out.splitlines()
    ] == [line.split() for line in lines]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["text.en"], "Give two files whose lines belong together, or one of"),
        (["text.en"] * 3, "Give two files whose lines belong together, or one of"),
        (["text.en", "short.de"], "text.en and short.de have different numbers of lines."),
        (["-", "text.de"], "cannot come from standard input"),
        (["text.en", "absent.de"], "absent.de cannot be opened"),
        (["absent.tmx"], "absent.tmx: No such file"),
        (["bad.tsv"], "bad.tsv: Line 1 has 1 columns and not 2."),
        (["text.en", "text.de", "-o", "text.de"], "--output must not be a file that is read."),
        (
            ["text.en", "text.de", "-o", "short.de"],
            "short.de has other lines than this command writes",
        ),
        (["pairs.tsv", "-o", "links.txt"], "links.txt has 5 lines, more than there are pairs"),
        (
            ["text.en", "text.de", "-o", "links.txt", "--probabilities"],
            "links.txt has other lines than",
        ),
        (["text.en", "text.de", "--model", "other"], "There is no model"),
    ],
)
def test_one_sentence_says_what_is_wrong_and_no_file_changes(run, tmp_path, capsys, words, said):
    (tmp_path / "links.txt").write_text("0-0\n" * 5)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert run(*words) in (1, 2)
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before

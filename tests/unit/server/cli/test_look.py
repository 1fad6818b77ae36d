"""`attentive look` on the fake engine."""

from __future__ import annotations

import pytest

from server.__main__ import main
from server.api.errors import STATUS
from server.cli import look
from server.cli.local_services import local_services
from server.cli.terminal import print_table
from server.config import Settings
from tests.support.engine.fake_engine import FakeEngine, fake_catalog

ASK = ["look", "one two", "--from", "en", "--to", "de"]


@pytest.fixture(autouse=True)
def fake_services(monkeypatch):
    """The command uses the fake engine. Its translation of "one two" is "owt eno"."""
    monkeypatch.setattr(
        look, "local_services", lambda _: local_services(Settings(), FakeEngine(), fake_catalog())
    )
    monkeypatch.setattr("server.cli.local_services.configure_logging", lambda *_: None)


def test_the_terminal_shows_the_alignment_and_the_strongest_heads(capsys):
    assert main([*ASK, "--heads", "2"]) == 0
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines()]
    assert lines[0] == ["one", "two"] and lines[1] == ["owt", "eno"]
    assert ["owt", "two"] in [line[:2] for line in lines] and ["eno", "one"] in [
        line[:2] for line in lines
    ]
    assert shown.count("→") == 2 and "Strongest heads" in shown


@pytest.mark.parametrize(
    ("name", "start"), [("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF")]
)
def test_pictures_are_written(tmp_path, capsys, name, start):
    file = tmp_path / name
    assert main([*ASK, "--output", str(file), "--theme", "dark"]) == 0
    assert file.read_bytes().startswith(start)
    assert f"{file}: " in capsys.readouterr().out


def test_a_picture_of_one_map(tmp_path):
    file = tmp_path / "map.svg"
    chosen = [
        "--view",
        "map",
        "--kind",
        "cross",
        "--layer",
        "0",
        "--head",
        "1",
        "--no-special",
        "--title",
        "Mine",
    ]
    assert main([*ASK, "-o", str(file), *chosen]) == 0
    assert "cross, layer 0, head 1" in file.read_text() and ">Mine<" in file.read_text()


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["--output", "a.gif"], "ends with .svg, .png or .pdf"),
        (["--view", "map"], "--view is for pictures; give --output FILE with it."),
        (["--output", "a.svg", "--theme", "pink"], "theme"),
        (["--output", "a.svg", "--view", "map"], "give kind"),
        (
            ["--output", "/nowhere/a.svg"],
            "/nowhere/a.svg cannot be written: No such file or directory.",
        ),
        (["--sentence", "3"], "sentence must be 0: this translation has one sentence."),
        (["--masked-heads", "cross"], "masked_heads"),
        (["--translation", ""], "translation must not be empty"),
    ],
)
def test_errors_are_one_sentence(tmp_path, monkeypatch, capsys, extra, said):
    monkeypatch.chdir(tmp_path)
    assert main([*ASK, *extra]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", STATUS)
def test_an_error_ends_with_the_status_of_its_kind(monkeypatch, capsys, kind):
    def fail(*_):
        raise kind("A sentence.")

    monkeypatch.setattr(look, "attention_query", fail)
    assert main(ASK) == (2 if STATUS[kind] < 500 and STATUS[kind] != 429 else 1)
    assert capsys.readouterr().err == "attentive: A sentence.\n"


def test_no_heads_are_listed_with_0_and_a_negative_number_is_refused(capsys):
    assert main([*ASK, "--heads", "0"]) == 0
    assert "Strongest heads" not in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main([*ASK, "--heads", "-1"])
    assert ended.value.code == 2
    assert "argument --heads: must be a whole number from 0, not '-1'" in capsys.readouterr().err


def test_only_terminals_get_colors(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert look.bar(0.5) == "██████······ 0.50"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert look.bar(0.5) == "\x1b[36m██████\x1b[0m\x1b[2m······\x1b[0m 0.50"
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in look.bar(0.5)


def test_columns_of_a_table_count_wide_and_combining_characters(capsys):
    print_table(("word", "x"), ("日本語", "1"), ("cafe\u0301", "2"))
    assert capsys.readouterr().out == "word    x\n日本語  1\ncafe\u0301    2\n"

"""The command line: wrong usage, help, documented commands, models, keys and the start."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.__main__ import COMMANDS, main, make_parser
from server.cli.serve import announce, browser_url
from server.config import Settings
from server.services import Services
from tests.support.engine.fake_engine import FakeEngine, fake_catalog
from tests.support.servers.keys import KeyFile
from tests.support.servers.ports import free_port

PAIR = ["--from", "en", "--to", "de"]
GLOSSARY = ["glossary", "create", "Devices", *PAIR, "--data", "data"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["look", "", *PAIR], "The text is empty; give a sentence."),
        (["look", "Hello", "--from", "", "--to", "de"], "'' is not supported as source language"),
        (
            ["translate", "--from", "en", "--to", "tlh", "empty.txt"],
            "'tlh' is not supported as target language",
        ),
        (
            ["translate", *PAIR, "absent.txt"],
            "absent.txt cannot be opened: No such file or directory.",
        ),
        (["translate", *PAIR, "folder"], "folder cannot be opened: Is a directory."),
        (["translate", *PAIR, ""], "The name of a file is empty."),
        (
            ["translate", *PAIR, "text.txt", "--output", "./text.txt"],
            "--output must not be the file that is read.",
        ),
        (["translate", *PAIR], "Standard input is closed; give the name of a file."),
        (["translate", *PAIR, "empty.txt"], "Standard output is closed; give the name of a file."),
        (["translate", *PAIR, "--weights", "empty.txt"], "empty.txt is a file."),
        (
            ["translate", *PAIR, "absent.docx"],
            "absent.docx cannot be opened: No such file or directory.",
        ),
        (
            ["translate", *PAIR, "damaged.docx", "-o", "text.txt"],
            "A .docx file is translated into docx here; set the suffix",
        ),
        (
            ["translate", *PAIR, "damaged.pdf", "-o", "text.odt"],
            "A .pdf file is translated into pdf or html here",
        ),
        (
            ["translate", *PAIR, "text.txt", "-o", "new.docx"],
            "Lines of text are not written as a .docx file",
        ),
        (["translate", *PAIR, "-o", "new.pdf"], "Lines of text are not written as a .pdf file"),
        (
            ["translate", *PAIR, "damaged.docx"],
            "The file is damaged, or its name does not say what it is.",
        ),
        (["translate", *PAIR, "damaged.pdf", "-o", "new.pdf"], "The file is encrypted, damaged"),
        (
            ["translate", *PAIR, "text.md", "-o", "new.md", "--file-characters", "4"],
            "characters are over the limit of 4.",
        ),
        (["models", "--weights", "absent"], "absent does not exist."),
        (["export", "--to", "huggingface", "absent", "out"], "There is no model 'absent' under "),
        (["calibrate", "", "--pairs", "dev.en-de.tsv"], "There is no model ''; there are "),
        (
            ["adapt", "absent", "few.tsv", *PAIR, "--name", "new"],
            "There is no model 'absent'; there are tiny.",
        ),
        (
            ["adapt", "tiny", "few.tsv", "--from", "de", "--to", "en", "--name", "new"],
            "tiny does not translate de-en;",
        ),
        (
            ["adapt", "tiny", "few.tsv", *PAIR, "--name", "tiny"],
            "There is a model 'tiny' already; choose another",
        ),
        (
            ["adapt", "tiny", "few.tsv", *PAIR, "--name", "../new"],
            "'../new' cannot be a folder's name",
        ),
        (
            ["adapt", "tiny", "few.tsv", *PAIR, "--name", "new", "--minutes", "0"],
            "--minutes must be a positive number.",
        ),
        (
            ["adapt", "tiny", "absent.tsv", *PAIR, "--name", "new"],
            "absent.tsv cannot be opened: No such file",
        ),
        (
            ["adapt", "tiny", "few.tsv", *PAIR, "--name", "new"],
            "There are 1 pairs to adapt to, and at least 100 are",
        ),
        (["keys", "create", "", "--data", "data"], "The name of a key must not be empty."),
        ([*GLOSSARY, "-"], "Standard input is closed; give the name of a file."),
        ([*GLOSSARY, "folder"], "folder cannot be opened: Is a directory."),
        ([*GLOSSARY, "empty.txt"], "A dictionary of a glossary must have at least one entry."),
    ],
)
def test_the_sentence_says_what_is_wrong(tiny_weights, tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.setenv("ATTENTIVE_WEIGHTS", str(tiny_weights))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.txt").touch()
    for name in ("text.txt", "text.md", "damaged.docx", "damaged.pdf"):
        (tmp_path / name).write_text("Hello")
    (tmp_path / "few.tsv").write_text("The house is old.\tDas Haus ist alt.\n")
    for closed in ("input", "output"):
        if f"Standard {closed}" in said:
            monkeypatch.setattr(sys, {"input": "stdin", "output": "stdout"}[closed], None)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert (tmp_path / "text.txt").read_text() == "Hello" and not list(tmp_path.glob("new.*"))


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["serve", "--key-requird"], "--key-required"),
        (["serve", "--ports", "8000"], "--port"),
        (["serve", "--queue-tokns=3"], "--queue-tokens"),
        (["models", "--jsno"], "--json"),
        (["keys", "create", "Ann", "--wieght", "2"], "--weight"),
        (["translate", "--form", "en", "--to", "de"], "--from"),  # not: a flag is missing
        (["translate", "a.txt", "b.txt", *PAIR, "--theads=3"], "--threads"),
        (["glossary", "export", "1", *PAIR, "--cvs"], "--csv"),
        (["serve", "--no-such-thing-at-all"], None),
    ],
)
def test_a_wrong_flag_gets_a_suggestion(capsys, words, near):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    error = capsys.readouterr().err
    assert "unrecognized arguments" in error
    assert (f"did you mean {near}?" in error) if near else ("did you mean" not in error)


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yields a parser and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from parsers(child)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns", ["60", "80"])
def test_words_are_in_one_piece(monkeypatch, columns, command):
    monkeypatch.setenv("COLUMNS", columns)
    for parser in parsers(make_parser(command)):
        shown = set(parser.format_help().split())
        for action in parser._actions:
            if action.help not in (None, argparse.SUPPRESS):
                assert set(action.help.replace("%%", "%").split()) <= shown, parser.prog


ROOT = Path(__file__).parents[4]
COMMAND = re.compile(rf"(?:^|[\s/])attentive ((?:{'|'.join(COMMANDS)}) .*)")


def documented_commands() -> Iterator[object]:
    """Yields each command, with its document as the id."""
    for document in sorted(
        [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")]
    ):
        for block in re.findall(
            r"^```\w*\n(.*?)^```$", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        ):
            for line in block.replace("\\\n", " ").splitlines():
                if found := COMMAND.search(line):
                    yield pytest.param(
                        shlex.split(found[1], comments=True), id=f"{document.name}:{found[1]}"
                    )


@pytest.mark.parametrize("words", list(documented_commands()))
def test_the_arguments_of_documented_commands_are_accepted(words, capsys):
    try:
        make_parser(words[0]).parse_args(words)
    except SystemExit as end:
        assert end.code == 0, capsys.readouterr().err  # 0 is --help


def test_the_command_models_lists_models_and_errors(weights, capsys):
    assert main(["models", "--weights", str(weights)]) == 0
    assert "tiny" in capsys.readouterr().out
    (weights / "bad").mkdir()
    (weights / "bad" / "config.json").write_text("{")
    assert main(["models", "--weights", str(weights), "--json"]) == 1
    listed = json.loads(capsys.readouterr().out)
    assert listed["models"][0]["pairs"] == ["en-de", "en-fr"] and "bad" in listed["errors"]
    (weights / "empty").mkdir()
    for folder in (weights / "empty", Path("/nowhere")):
        assert main(["models", "--weights", str(folder)]) == 2
        error = capsys.readouterr().err
        assert "ATTENTIVE_WEIGHTS" in error and str(folder) in error


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://localhost:8000"),
        ("0.0.0.0", "http://localhost:8000"),
        ("::", "http://localhost:8000"),
        ("192.0.2.7", "http://192.0.2.7:8000"),
        ("2001:db8::1", "http://[2001:db8::1]:8000"),
    ],
)
def test_the_address_is_one_for_a_browser(host, url):
    assert browser_url(host, 8000) == url


def started(
    engine: FakeEngine, caplog: pytest.LogCaptureFixture, **settings: Any
) -> list[logging.LogRecord]:
    async def scenario() -> None:
        services = Services(Settings(**settings), engine, fake_catalog())
        await services.start()
        await announce(services, "http://localhost:8000")
        await services.stop()

    with caplog.at_level(logging.INFO, "server.cli.serve"):
        asyncio.run(scenario())
    return [record for record in caplog.records if record.name == "server.cli.serve"]


def test_the_log_says_when_translations_are_served_and_where(caplog):
    [record] = started(FakeEngine(), caplog)
    assert record.getMessage() == "ready: open http://localhost:8000 in a browser"
    assert vars(record)["models"] == "toy"


def test_the_log_says_that_no_model_was_loaded(caplog):
    engine = FakeEngine()
    engine.load_error = "The file is too short."
    [record] = started(engine, caplog)
    assert record.levelname == "ERROR" and "The file is too short." in record.getMessage()


def test_the_log_of_a_server_for_others_says_that_its_state_is_its_own(caplog, tmp_path):
    _, record = started(FakeEngine(), caplog, host="0.0.0.0")
    assert record.levelname == "WARNING" and "no API keys" in record.getMessage()
    caplog.clear()
    assert len(started(FakeEngine(), caplog, host="0.0.0.0", data=tmp_path)) == 1


@pytest.mark.parametrize(("required", "warned"), [("", True), ("false", True), ("true", False)])
def test_callers_without_a_key_are_a_warning(monkeypatch, tmp_path, capsys, required, warned):
    monkeypatch.setenv("ATTENTIVE_KEY_REQUIRED", required)
    assert main(["keys", "create", "Ann", "--data", str(tmp_path)]) == 0
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 1
    assert ("ATTENTIVE_KEY_REQUIRED=true" in output.err) == warned


@pytest.mark.parametrize("action", [("revoke", "x"), ("list",)])
def test_only_create_makes_a_key_file(action, tmp_path, capsys):
    status = main(["keys", *action, "--data", str(tmp_path / "mistyped")])
    assert status == (2 if action[0] == "revoke" else 0), capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_keys_are_created_listed_and_revoked(tmp_path, capsys):
    data = ("--data", str(tmp_path))
    assert (
        main(["keys", "create", "Ann", "--requests-per-minute", "5", "--weight", "2.5", *data]) == 0
    )
    secret = capsys.readouterr().out.strip()
    assert main(["keys", "create", "Bob", *data]) == 0
    capsys.readouterr()
    assert main(["keys", "list", "--json", *data]) == 0
    entry, other = json.loads(capsys.readouterr().out)
    assert (entry["name"], entry["requests_per_minute"], entry["revoked"]) == ("Ann", 5, None)
    assert (entry["weight"], other["weight"]) == (2.5, 1.0)
    assert "digest" not in entry
    assert main(["keys", "list", *data]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[-2:] for row in rows] == [["WEIGHT", "NAME"], ["2.5", "Ann"], ["1", "Bob"]]
    assert main(["keys", "revoke", entry["id"], *data]) == 0
    assert main(["keys", "revoke", entry["id"], *data]) == 2
    assert [key.revoked is None for key in KeyFile(tmp_path).all()] == [False, True]
    assert secret not in str(KeyFile(tmp_path).all())
    assert main(["keys", "list"]) == 2


@pytest.mark.parametrize("limit", ["-2", "1.5", "many"])
def test_a_limit_that_is_no_whole_number_is_named(tmp_path, capsys, limit):
    with pytest.raises(SystemExit, match="2"):
        main(["keys", "create", "Ann", "--requests-per-minute", limit, "--data", str(tmp_path)])
    assert f"must be a whole number from 0, not '{limit}'" in capsys.readouterr().err


@pytest.mark.parametrize("weight", ["0", "0.05", "100.5", "-1", "nan"])
def test_a_weight_out_of_range_is_one_sentence(tmp_path, capsys, weight):
    assert main(["keys", "create", "Ann", "--weight", weight, "--data", str(tmp_path)]) == 2
    assert (
        capsys.readouterr().err
        == f"attentive: The weight of a key must be from 0.1 to 100, not {weight}.\n"
    )
    assert KeyFile(tmp_path).all() == []


def test_a_place_that_cannot_be_used_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for words in (
        ["keys", "create", "Ann"],
        ["glossary", "create", "x", "-", "--from", "en", "--to", "de"],
    ):
        assert main([*words, "--data", str(tmp_path / "file" / "data")]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "Not a directory." in error
        assert "Errno" not in error
    assert main(["keys", "list", "--state", f"redis://:hunter2@127.0.0.1:{free_port()}"]) == 1
    error = capsys.readouterr().err
    assert "cannot be reached" in error
    assert "hunter2" not in error

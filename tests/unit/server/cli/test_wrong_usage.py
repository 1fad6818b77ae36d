"""Empty texts and names, folders in place of files and closed streams end a command with one sentence and status 2."""

from __future__ import annotations

import sys

import pytest

from server.__main__ import main

PAIR = ["--from", "en", "--to", "de"]
GLOSSARY = ["glossary", "create", "Devices", *PAIR, "--data", "data"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["look", "", *PAIR], "The text is empty; give a sentence."),
        (["look", "Hello", "--from", "", "--to", "de"], "'' is not supported as source language"),
        (["translate", "--from", "en", "--to", "tlh", "empty.txt"], "'tlh' is not supported as target language"),
        (["translate", *PAIR, "absent.txt"], "absent.txt cannot be opened: No such file or directory."),
        (["translate", *PAIR, "folder"], "folder cannot be opened: Is a directory."),
        (["translate", *PAIR, ""], "The name of a file is empty."),
        (["translate", *PAIR, "text.txt", "--output", "./text.txt"], "--output must not be the file that is read."),
        (["translate", *PAIR], "Standard input is closed; give the name of a file."),
        (["translate", *PAIR, "empty.txt"], "Standard output is closed; give the name of a file."),
        (["translate", *PAIR, "--weights", "empty.txt"], "empty.txt is a file."),
        (["translate", *PAIR, "absent.docx"], "absent.docx cannot be opened: No such file or directory."),
        (
            ["translate", *PAIR, "damaged.docx", "-o", "text.txt"],
            "A .docx file is translated into docx here; set the suffix",
        ),
        (["translate", *PAIR, "damaged.pdf", "-o", "text.odt"], "A .pdf file is translated into pdf or html here"),
        (["translate", *PAIR, "text.txt", "-o", "new.docx"], "Lines of text are not written as a .docx file"),
        (["translate", *PAIR, "-o", "new.pdf"], "Lines of text are not written as a .pdf file"),
        (["translate", *PAIR, "damaged.docx"], "The file is damaged, or its name does not say what it is."),
        (["translate", *PAIR, "damaged.pdf", "-o", "new.pdf"], "The file is encrypted, damaged"),
        (
            ["translate", *PAIR, "text.md", "-o", "new.md", "--file-characters", "4"],
            "characters are over the limit of 4.",
        ),
        (["models", "--weights", "absent"], "absent does not exist."),
        (["export", "--to", "huggingface", "absent", "out"], "There is no model 'absent' under "),
        (["calibrate", "", "--pairs", "dev.en-de.tsv"], "There is no model ''; there are "),
        (["adapt", "absent", "few.tsv", *PAIR, "--name", "new"], "There is no model 'absent'; there are tiny."),
        (["adapt", "tiny", "few.tsv", "--from", "de", "--to", "en", "--name", "new"], "tiny does not translate de-en;"),
        (["adapt", "tiny", "few.tsv", *PAIR, "--name", "tiny"], "There is a model 'tiny' already; choose another"),
        (["adapt", "tiny", "few.tsv", *PAIR, "--name", "../new"], "'../new' cannot be a folder's name"),
        (
            ["adapt", "tiny", "few.tsv", *PAIR, "--name", "new", "--minutes", "0"],
            "--minutes must be a positive number.",
        ),
        (["adapt", "tiny", "absent.tsv", *PAIR, "--name", "new"], "absent.tsv cannot be opened: No such file"),
        (["adapt", "tiny", "few.tsv", *PAIR, "--name", "new"], "There are 1 pairs to adapt to, and at least 100 are"),
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

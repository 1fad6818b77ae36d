"""The `attentive` commands in the code blocks of the documentation have arguments that their parsers accept."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.__main__ import COMMANDS, make_parser

ROOT = Path(__file__).parents[4]
COMMAND = re.compile(rf"(?:^|[\s/])attentive ((?:{'|'.join(COMMANDS)}) .*)")


def documented_commands() -> Iterator[object]:
    """Yields each command, with its document as the id."""
    for document in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")]):
        for block in re.findall(r"^```\w*\n(.*?)^```$", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                if found := COMMAND.search(line):
                    yield pytest.param(shlex.split(found[1], comments=True), id=f"{document.name}:{found[1]}")


@pytest.mark.parametrize("words", list(documented_commands()))
def test_the_arguments_of_documented_commands_are_accepted(words, capsys):
    try:
        make_parser(words[0]).parse_args(words)
    except SystemExit as end:
        assert end.code == 0, capsys.readouterr().err  # 0 is --help

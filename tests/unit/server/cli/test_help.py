"""The help of every command has its words, addresses among them, in one piece."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from server.__main__ import COMMANDS, make_parser


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

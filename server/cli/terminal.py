"""Arguments and output that several commands share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence

from server.config import Settings, add_flags


def whole_number(least: int) -> Callable[[str], int]:
    """Returns the type of a flag that is a whole number of at least `least`. argparse refuses other values with one
    sentence and status 2."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number from {least}, not {text!r}")
        return int(text)

    return parse


def add_direction(parser: argparse.ArgumentParser, source: str, target: str = "Language to translate into.") -> None:
    """Adds --from and --to with these help texts."""
    parser.add_argument("--from", dest="source", required=True, metavar="CODE", help=source)
    parser.add_argument("--to", dest="target", required=True, metavar="CODE", help=target)


def add_state_flags(*parsers: argparse.ArgumentParser) -> None:
    """Adds the flags that name the state of a server, for `state_settings`."""
    for parser in parsers:
        add_flags(parser, ("data", "state"))


def state_settings(arguments: argparse.Namespace) -> Settings:
    """Returns the settings of `add_state_flags`; a command may have other flags with names of settings."""
    return Settings.read(argparse.Namespace(data=arguments.data, state=arguments.state))


def print_json(value: object) -> None:
    """Prints a value as indented JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(*rows: Sequence[str]) -> None:
    """Prints rows, the first of them headings; all columns but the last have the same width in each row."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]))

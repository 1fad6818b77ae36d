"""The command line: `attentive ...`, or `python -m server ...`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from server.commands import exporting, importing, keys, models, pulling, serve, translate
from server.errors import AttentiveError, SettingsError
from server.services import server_version

COMMANDS = (serve, translate, models, pulling, importing, exporting, keys)
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; the result is the exit status: 0, 1 where the work failed, 2 where it was asked for wrongly."""
    arguments = make_parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except SettingsError as error:
        print(f"attentive: {error}", file=sys.stderr)
        return 2
    except AttentiveError as error:
        print(f"attentive: {error.message}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def make_parser() -> argparse.ArgumentParser:
    """The parser with all commands."""
    parser = argparse.ArgumentParser(prog="attentive", description="A translation server that lets you look inside.")
    parser.add_argument("--version", action="version", version=f"attentive {server_version()}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        child = commands.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        command.add_arguments(child)
        child.set_defaults(run=command.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())

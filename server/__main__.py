"""The command line: `attentive ...`, or `python -m server ...`."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import takewhile

from server import server_version
from server.errors import ADD_TORCH, AttentiveError, ClientError, SettingsError

COMMANDS = {
    "serve": "serve",
    "translate": "translate",
    "align": "align",
    "look": "look",
    "models": "models",
    "pull": "pull",
    "import": "import_model",
    "export": "export",
    "calibrate": "calibrate",
    "adapt": "adapt",
    "keys": "keys",
    "glossary": "glossary",
    "ray": "ray",
}
"""Command -> its module in server.cli. Only the module of the given command is imported."""
INTERRUPTED = 130
BROKEN_PIPE = 141
"""The status that a shell reports for a program that ends at SIGPIPE."""


class HelpFormatter(argparse.HelpFormatter):
    """Breaks the help of a flag at spaces only, so that addresses can be copied."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(
            " ".join(text.split()), width, break_long_words=False, break_on_hyphens=False
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status: 0 for success, 1 for a failure, 2 for wrong
    usage or wrong input, such as an unknown id."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        parser = make_parser(words[0] if words else "")
        check_flags(words, parser)
        arguments = parser.parse_args(words)
        status: int = arguments.run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (SettingsError, AttentiveError) as error:
        print(f"attentive: {error}", file=sys.stderr)
        return 2 if isinstance(error, (SettingsError, ClientError)) else 1
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        print(f"attentive: `{words[0]}` needs PyTorch here. {ADD_TORCH}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of standard output has gone, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes at its end
        return BROKEN_PIPE
    except OSError as error:
        if error.filename is None:
            raise
        print(f"attentive: {error.filename}: {error.strerror}.", file=sys.stderr)
        return 1
    return status


def check_flags(words: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Ends with an error for an unknown flag and names a similar one. argparse would first report a
    missing flag."""
    known = list(flags(parser))
    for word in takewhile("--".__ne__, words):
        wrong = word.partition("=")[0]
        if (
            wrong.startswith("--")
            and " " not in wrong
            and not any(flag.startswith(wrong) for flag in known)
        ):
            near = difflib.get_close_matches(wrong, known, n=1)
            parser.error(
                f"unrecognized arguments: {word}" + (f"; did you mean {near[0]}?" if near else "")
            )


def flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        for child in action.choices.values() if isinstance(action.choices, dict) else ():
            yield from flags(child)


def make_parser(first: str) -> argparse.ArgumentParser:
    """Returns the parser of one command if `first` names it, else the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="attentive", description="A translation server that lets you look inside."
    )
    parser.add_argument("--version", action="version", version=f"attentive {server_version()}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in [first] if first in COMMANDS else COMMANDS:
        command = import_module(f"server.cli.{COMMANDS[name]}")
        child = commands.add_parser(
            command.NAME, help=command.HELP, description=command.HELP, formatter_class=HelpFormatter
        )
        command.add_arguments(child)
        child.set_defaults(run=command.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Sends hard input to a server and prints a Markdown table for a model card: source, translation, and broken rules.

    python -m benchmarks.quality.robustness http://127.0.0.1:8000
    python -m benchmarks.quality.robustness http://127.0.0.1:8000 --broken  # only cases that break a rule; exit status 1 if any

The server must be compatible with LibreTranslate. Cases in directions that it does not serve are skipped.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from benchmarks.quality.hard_input import CASES, broken_rules
from benchmarks.quality.http_client import Client, ServerError

_WIDTH = 90
"""Maximum characters of a text in the table."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    rows: list[str] = []
    failures = 0
    try:
        with Client(options.url, api_key=options.api_key) as client:
            served = set(client.directions())
            cases = [case for case in CASES if f"{case.source}-{case.target}" in served]
            for case in cases:
                [answer] = client.translate([case.text], case.source, case.target)
                reasons = broken_rules(case, answer)
                failures += bool(reasons)
                if reasons or not options.broken:
                    name = f"{case.name}, **{'; '.join(map(shown, reasons))}**" if reasons else case.name
                    rows.append(f"| {name} | {case.source}→{case.target} | {shown(case.text)} | {shown(answer)} |")
    except ServerError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(["| case | direction | source | translation |", "|---|---|---|---|", *rows]))
    print(f"\n{len(cases) - failures} of {len(cases)} cases keep every rule.")
    return int(options.broken and failures > 0)


def shown(text: str) -> str:
    """Formats a text as a cell of a Markdown table: visible line ends and tabs, the middle of a long text omitted."""
    visible = text.replace("\r\n", "↵").replace("\n", "↵").replace("\t", "⇥")
    if len(visible) > _WIDTH:
        visible = f"{visible[: _WIDTH // 2]} … {visible[-_WIDTH // 3 :]}"
    return re.sub(r"([\\|*_`<])", r"\\\1", visible)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality.robustness", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("url", help="a server that answers POST /translate")
    parser.add_argument("--api-key", help="key for the server")
    parser.add_argument(
        "--broken", action="store_true", help="print only cases that break a rule; exit status 1 if any"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

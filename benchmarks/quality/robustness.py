"""Hard input through a server, as a Markdown table for a model's card: what went in, what came out, and what was lost.

    python -m benchmarks.quality.robustness http://127.0.0.1:8000
    python -m benchmarks.quality.robustness http://127.0.0.1:8000 --broken  # only what breaks a rule; exit status 1 if any does

Any server that speaks LibreTranslate's dialect can be asked. Cases in directions that it does not serve are left out.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

import httpx

from benchmarks.quality.hard_input import CASES, broken
from benchmarks.quality.http_client import Client, DialectError

_WIDTH = 90
"""Characters of a text that the table shows."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    options = _parser().parse_args(arguments)
    rows: list[str] = []
    failures = 0
    try:
        with Client(options.url, api_key=options.api_key) as client:
            served = set(client.directions())
            cases = [case for case in CASES if f"{case.source}-{case.target}" in served]
            for case in cases:
                [answer] = client.translate([case.text], case.source, case.target)
                reasons = broken(case, answer)
                failures += bool(reasons)
                if reasons or not options.broken:
                    name = f"{case.name}, **{'; '.join(map(shown, reasons))}**" if reasons else case.name
                    rows.append(f"| {name} | {case.source}→{case.target} | {shown(case.text)} | {shown(answer)} |")
    except (DialectError, httpx.HTTPError) as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(["| case | direction | source | translation |", "|---|---|---|---|", *rows]))
    print(f"\n{len(cases) - failures} of {len(cases)} cases keep every rule.")
    return int(options.broken and failures > 0)


def shown(text: str) -> str:
    """A text as one cell of a Markdown table: line ends and tabs visible, the middle of a long one left out."""
    visible = text.replace("\r\n", "↵").replace("\n", "↵").replace("\t", "⇥")
    if len(visible) > _WIDTH:
        visible = f"{visible[: _WIDTH // 2]} … {visible[-_WIDTH // 3 :]}"
    return re.sub(r"([\\|*_`<])", r"\\\1", visible)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.robustness", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("url", help="a server that answers POST /translate")
    parser.add_argument("--api-key", help="key for the server")
    parser.add_argument("--broken", action="store_true", help="show what breaks a rule only; exit with 1 if anything does")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Blind readings of the behaviour set.

python -m benchmarks.quality.behaviour sheets readings old=http://127.0.0.1:8001 new=http://127.0.0.1:8002
python -m benchmarks.quality.behaviour grades readings

`sheets` translates the set with every server and writes `readings/en-de.tsv` and so on; `key.json` there says who wrote what. A
reader writes `readings/READER.en-de.txt` with a line `id<TAB>letters` per sentence, one letter per translation: r for right,
u for understandable, w for wrong. `grades` counts them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.common import report
from benchmarks.quality.behaviour.sheets import (
    GRADES,
    LANGUAGES,
    Row,
    agreement,
    count,
    mixed,
    read_grades,
    read_sentences,
    sheet,
)
from benchmarks.quality.http_client import Client, ServerError

_SEED = 2026
_BATCH = 20
DIRECTIONS = [(s, t) for other in LANGUAGES[1:] for s, t in (("en", other), (other, "en"))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "sheets":
            write_sheets(options.folder, dict(system.split("=", 1) for system in options.systems))
        else:
            print_grades(options.folder)
    except (ServerError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def write_sheets(folder: Path, systems: dict[str, str]) -> None:
    """Translates the set with the servers `systems[name]` (URLs) and writes the sheets and the key."""
    folder.mkdir(parents=True, exist_ok=True)
    key = {}
    for source, target in DIRECTIONS:
        sources = {name: texts[source] for name, texts in read_sentences().items()}
        answers = {name: _translate(url, sources, source, target) for name, url in systems.items()}
        rows = mixed(sources, answers, _SEED)
        direction = f"{source}-{target}"
        (folder / f"{direction}.tsv").write_text(sheet(rows), encoding="utf-8")
        key[direction] = [asdict(row) for row in rows]
    (folder / "key.json").write_text(json.dumps(key, ensure_ascii=False, indent=1), encoding="utf-8")


def print_grades(folder: Path) -> None:
    """Prints the counts of each reader and system per direction, and how often two readers agree."""
    key = json.loads((folder / "key.json").read_text(encoding="utf-8"))
    lines: list[list[object]] = []
    for direction, entries in key.items():
        rows = [Row(e["id"], e["source"], tuple(e["translations"]), tuple(e["systems"])) for e in entries]
        readings = {
            path.name.split(".")[0]: read_grades(path.read_text(encoding="utf-8"), rows)
            for path in sorted(folder.glob(f"*.{direction}.txt"))
        }
        for reader, grades in readings.items():
            for system, counts in count(rows, grades).items():
                lines.append([direction, system, reader, *(counts[grade] for grade in GRADES.values())])
        if len(readings) == 2:
            first, second = readings.values()
            print(f"{direction}: the readers agree on {agreement(rows, first, second):.0%}")
    print(report.table(("direction", "system", "reader", *GRADES.values()), lines))


def _translate(url: str, sources: dict[str, str], source: str, target: str) -> dict[str, str]:
    texts = Client(url).translate_all(list(sources.values()), source, target, _BATCH)
    return {name: " ".join(text.split()) for name, text in zip(sources, texts, strict=True)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.behaviour", description="Blind readings.")
    commands = parser.add_subparsers(dest="command", required=True)
    sheets = commands.add_parser("sheets", help="translate the set and write sheets for readers")
    sheets.add_argument("folder", type=Path)
    sheets.add_argument("systems", nargs="+", metavar="NAME=URL")
    commands.add_parser("grades", help="count the grades of the readers").add_argument("folder", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())

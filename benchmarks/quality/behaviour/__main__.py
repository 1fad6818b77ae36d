"""Blind readings of the behaviour set, and of the sentences that new users type first (`--set
first`).

python -m benchmarks.quality.behaviour sheets readings old=http://127.0.0.1:8001
new=http://127.0.0.1:8002 python -m benchmarks.quality.behaviour grades readings

`sheets` translates the set with every server and writes `readings/en-de.tsv` and so on; `key.json`
there says who wrote what. A reader writes `readings/READER.en-de.txt` with a line `id<TAB>letters`
per sentence, one letter per translation: r for right, u for understandable, w for wrong. `grades`
counts them.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from attentive import Client
from benchmarks.common import report
from benchmarks.common.command_line import new_parser, run

SETS = ("sentences", "first")
LANGUAGES = ("en", "de", "fr", "es")
DIRECTIONS = [(s, t) for other in LANGUAGES[1:] for s, t in (("en", other), (other, "en"))]
GRADES = {"r": "right", "u": "understandable", "w": "wrong"}
SEED = 2026
BATCH = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = new_parser("quality.behaviour", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    sheets = commands.add_parser("sheets", help="translate the set and write sheets for readers")
    sheets.add_argument("folder", type=Path)
    sheets.add_argument("--set", choices=SETS, default=SETS[0], help="default: %(default)s")
    sheets.add_argument("systems", nargs="+", metavar="NAME=URL")
    grades = commands.add_parser("grades", help="count the grades of the readers")
    grades.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "grades":
        return run(lambda: print_grades(options.folder))
    systems = dict(system.split("=", 1) for system in options.systems)
    return run(lambda: write_sheets(options.folder, options.set, systems))


def write_sheets(folder: Path, name: str, systems: dict[str, str]) -> None:
    """Translates the set `name` with the servers `systems[name]` (URLs). Writes the sheets, with
    the systems of each sentence in random order, and the key: the systems by direction and id of a
    sentence."""
    folder.mkdir(parents=True, exist_ok=True)
    file = Path(__file__).with_name(f"{name}.tsv")
    lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    key: dict[str, dict[str, list[str]]] = {}
    for source, target in DIRECTIONS:
        chance = random.Random(SEED)
        texts = [line[2 + LANGUAGES.index(source)] for line in lines]
        answers: dict[str, list[str]] = {}
        for name, url in systems.items():
            with Client(url) as client:
                translations = client.translate(texts, source, target, batch=BATCH)
            answers[name] = [" ".join(text.split()) for text in translations]
        orders = [chance.sample(sorted(systems), len(systems)) for _ in texts]
        rows = [
            "\t".join([line[0], texts[number], *(answers[name][number] for name in order)]) + "\n"
            for number, (line, order) in enumerate(zip(lines, orders, strict=True))
        ]
        (folder / f"{source}-{target}.tsv").write_text("".join(rows), encoding="utf-8")
        key[f"{source}-{target}"] = {
            line[0]: order for line, order in zip(lines, orders, strict=True)
        }
    (folder / "key.json").write_text(
        json.dumps(key, ensure_ascii=False, indent=1), encoding="utf-8"
    )


def print_grades(folder: Path) -> None:
    """Prints the counts of each reader and system per direction, and how often two readers agree.
    Raises ValueError."""
    key = json.loads((folder / "key.json").read_text(encoding="utf-8"))
    table: list[list[object]] = []
    for direction, orders in key.items():
        readings = [
            (path.name.split(".")[0], read_grades(path, orders))
            for path in sorted(folder.glob(f"*.{direction}.txt"))
        ]
        for reader, letters in readings:
            counts = Counter(
                zip((name for order in orders.values() for name in order), letters, strict=True)
            )
            for system in sorted({name for name, _ in counts}):
                table.append(
                    [direction, system, reader, *(counts[system, letter] for letter in GRADES)]
                )
        if len(readings) == 2:
            same = sum(map(str.__eq__, readings[0][1], readings[1][1])) / len(readings[0][1])
            print(f"{direction}: the readers agree on {same:.0%}")
    print(report.table(("direction", "system", "reader", *GRADES.values()), table))


def read_grades(path: Path, orders: dict[str, list[str]]) -> str:
    """Returns the letters of a reader for all sentences of a direction, in the order of the key.
    Raises ValueError."""
    parts = [line.partition("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    letters = {id.strip(): grades.strip().lower() for id, _, grades in parts}
    for id, order in orders.items():
        if len(letters.get(id, "")) != len(order) or not set(letters[id]) <= set(GRADES):
            raise ValueError(f"{id} of {path.name} needs {len(order)} letters of r, u and w.")
    return "".join(letters[id] for id in orders)


if __name__ == "__main__":
    sys.exit(main())

"""Alignment error rate against gold alignments, and inline tags of translations that are around the
right words.

    python -m benchmarks.alignment --model weights/NAME --data ALIGNMENTS

A set of `--data` is measured if the model translates between its languages in both directions.
Every pair is aligned as by POST /align, with the words of the gold alignment and with those that
the server finds, and inline tags are placed by these links. `marked_sentences` describes the second
table, which needs no `--data`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.alignment import marked_sentences
from benchmarks.alignment.gold import SETS, of_tokens, own_words, quality, right, tags, written
from benchmarks.common import report
from benchmarks.common.command_line import new_parser, run
from server.cli.local_services import local_services, running
from server.config import Settings
from server.engine.client.batch import gather_or_cancel
from server.inspection.text_alignment import TextAligner
from server.models.discovery import find_served
from server.services import Services
from server.translation.catalog import ModelCatalog


async def measure(name: str, services: Services, model: str, data: Path) -> list[list[object]]:
    """Returns the rows of the table for one gold set."""
    read, *languages = SETS[name]
    gold = read(data)
    leg = services.inspector.single_leg(languages[0], languages[1], "A measurement", model)
    plain = [
        (written(pair.first, languages[0]), written(pair.second, languages[1])) for pair in gold
    ]
    rows: list[list[object]] = []
    for cut, change in (("gold words", lambda side: side), ("own words", own_words)):
        sides = [(change(first), change(second)) for first, second in plain]
        tagged = [tags(pair, *side) for pair, side in zip(gold, sides, strict=True)]
        spans = {side.text: list(side.spans) for pair in sides for side in pair}
        for method in ("combined", "attention"):
            aligner = TextAligner(services.inspector, leg, method, spans.__getitem__)
            started = time.perf_counter()
            found = await gather_or_cancel(
                [aligner.align(first.text, second.text, name) for first, second in sides]
            )
            speed = len(sides) / (time.perf_counter() - started)
            links = [{(i, j) for i, j, _ in pair.links} for pair in found]
            placed = [
                right(each, *side, tag)
                for each, side, tag in zip(links, sides, tagged, strict=True)
                if tag
            ]
            tokens = [of_tokens(each, *side) for each, side in zip(links, sides, strict=True)]
            figures = quality(tokens, gold).values()
            rows.append([name, method, cut, *figures, sum(placed), len(placed), speed])
    return rows


async def measure_all(
    services: Services, model: str, data: Path | None
) -> tuple[list[list[object]], list[list[object]]]:
    """Returns the rows of all sets that the model translates both ways, and those of the marked
    sentences."""
    [served] = services.translator.catalog.models
    async with running(services):
        rows = [
            row
            for name, (_, first, second) in SETS.items()
            if data and {(first, second), (second, first)} <= set(served.pairs)
            for row in await measure(name, services, model, data)
        ]
        return rows, await marked_sentences.measure(services)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = new_parser("alignment", __doc__, "--model", "--threads", "--json")
    parser.add_argument("--data", type=Path, help="folder of gold alignments")
    options = parser.parse_args(arguments)

    def measure_both() -> None:
        settings = Settings(weights=options.model.parent, threads=options.threads)
        catalog = ModelCatalog(find_served(settings)[0]).only(options.model.name)
        services = local_services(settings, catalog=catalog)
        rows, marked = asyncio.run(measure_all(services, options.model.name, options.data))
        header = "set|links|words|AER|precision|recall|tags right|sentences|pairs/s".split("|")
        for head, table in ((header, rows), (marked_sentences.HEADER, marked)):
            print(report.table(head, table) + "\n" if table else "")
        if options.json:
            tags = {"header": marked_sentences.HEADER, "rows": marked}
            results = {"header": header, "rows": rows, "marked sentences": tags}
            report.write(options.json, {"benchmark": "alignment", **results})

    return run(measure_both)


if __name__ == "__main__":
    sys.exit(main())

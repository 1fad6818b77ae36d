"""Alignment error rate against gold alignments, and inline tags of translations that are around the
right words.

    python -m benchmarks.alignment --model weights/NAME --data ALIGNMENTS

A set of `--data` is measured if the model translates between its languages in both directions.
Every pair is aligned as by POST /align, with the words of the gold alignment and with those that
the server finds; inline tags are placed by these links; and each word is linked to the word with
the largest contribution to each layer, and the largest weight of each head. `marked_sentences`
describes the second table, which needs no `--data`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.alignment import marked_sentences
from benchmarks.alignment.gold import (
    SETS,
    GoldPair,
    Links,
    Written,
    of_tokens,
    own_words,
    quality,
    written,
)
from benchmarks.alignment.maps import largest_links
from benchmarks.alignment.markup import right, tags
from benchmarks.common import report
from server.cli.local_services import local_services, running
from server.config import Settings
from server.engine.client.batch import gather_or_cancel
from server.errors import AttentiveError
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
            rows.append(
                [name, method, cut, *_figures(links, sides, gold), sum(placed), len(placed), speed]
            )
    largest = [await largest_links(services.engine, leg, *side) for side in plain]
    for which in largest[0]:
        rows.append(
            [
                name,
                which,
                "gold words",
                *_figures([links[which] for links in largest], plain, gold),
                "",
                "",
                "",
            ]
        )
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


def _figures(
    found: Sequence[Links], sides: Sequence[tuple[Written, Written]], gold: Sequence[GoldPair]
) -> list[float]:
    tokens = [of_tokens(links, *side) for links, side in zip(found, sides, strict=True)]
    return list(quality(tokens, gold).values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        settings = Settings(weights=options.model.parent, threads=options.threads)
        services = local_services(
            settings, catalog=ModelCatalog(find_served(settings)[0]).only(options.model.name)
        )
        rows, marked = asyncio.run(measure_all(services, options.model.name, options.data))
    except (AttentiveError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    header = (
        "set",
        "links",
        "words",
        "AER",
        "precision",
        "recall",
        "tags right",
        "sentences",
        "pairs/s",
    )
    for head, found in ((header, rows), (marked_sentences.HEADER, marked)):
        print(report.table(head, found) + "\n" if found else "")
    if options.json:
        tags = {"header": marked_sentences.HEADER, "rows": marked}
        report.write(
            options.json,
            {"benchmark": "alignment", "header": header, "rows": rows, "marked sentences": tags},
        )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.alignment", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--model", type=Path, required=True, help="model folder")
    parser.add_argument("--data", type=Path, help="folder of gold alignments")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the results here")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""A glossary in real sentences, through a server: how many terms are in place, and what it does to chrF.

python -m benchmarks.quality.glossary http://127.0.0.1:8000 --data DATA --sets flores-dev --directions en-de

The terms are taken from the sets: words of at least five letters that occur in three or more sentences and have one
translation in most of their references. The table has the sentences with a term, translated without and with the
glossary.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence

from benchmarks.common import report
from benchmarks.common.arguments import add_server_options
from benchmarks.common.development_sets import DevelopmentSet, choose, read_sets
from benchmarks.quality.http_client import Client, ServerError
from model.training.loop.evaluate import score
from server.text.glossary import Entry, TermIndex
from server.text.term_forms import lacking

_WORD = re.compile(r"\w+")
_HEADER = ("direction", "glossary", "sentences", "terms", "in place %", "chrF")
SHORTEST = (5, 4)
"""Least letters of a term and of its translation."""
SENTENCES = 3
"""Least sentences with a term."""
SHARE = 0.7
"""Least share of the references of these sentences that have the translation."""
DICE = 0.3
"""Least association of a term with its translation."""


def chosen_terms(item: DevelopmentSet, number: int) -> list[Entry]:
    """Returns the most frequent terms of a set that have one translation, with different translations."""
    pairs = [
        ({word for word in _WORD.findall(source) if word[0].islower()}, set(_WORD.findall(reference)))
        for source, reference in zip(item.sources, item.references, strict=True)
    ]
    sources = Counter(word for words, _ in pairs for word in words if len(word) >= SHORTEST[0])
    targets = Counter(word for _, words in pairs for word in words if len(word) >= SHORTEST[1])
    both = Counter((a, b) for left, right in pairs for a in left & sources.keys() for b in right & targets.keys())
    best: dict[str, tuple[float, str]] = {}
    for (source, target), count in both.items():
        dice = 2 * count / (sources[source] + targets[target])
        if sources[source] >= SENTENCES and count >= SHARE * sources[source] and dice >= DICE:
            best[source] = max(best.get(source, (0.0, "")), (dice, target))
    found: dict[str, Entry] = {}
    for source, (_, target) in sorted(best.items(), key=lambda one: (-sources[one[0]], one[0])):
        if source != target.lower():
            found.setdefault(target, Entry(source, target))
    return list(found.values())[:number]


def measure(client: Client, item: DevelopmentSet, number: int, batch: int) -> list[list[object]]:
    """Returns two rows of the table: without and with the glossary. Raises ValueError for a set without terms."""
    entries = chosen_terms(item, number)
    index = TermIndex(entries)
    pairs = [(a, b) for a, b in zip(item.sources, item.references, strict=True) if index.find(a)]
    if not pairs:
        raise ValueError(f"{item.name} {item.direction} has no term; take more pairs (--limit).")
    terms = [index.find(source) for source, _ in pairs]
    count = sum(map(len, terms))
    rows: list[list[object]] = []
    for glossary in ({}, {entry.source: entry.target for entry in entries}):
        fields = {"glossary": glossary} if glossary else {}
        texts = [source for source, _ in pairs]
        answers = list(client.translate_all(texts, item.source, item.target, batch, fields))
        missing = sum(len(lacking(found, answer)) for found, answer in zip(terms, answers, strict=True))
        quality = score(answers, [reference for _, reference in pairs], item.target).chrf
        rows.append([item.direction, len(glossary), len(pairs), count, 100 * (1 - missing / count), quality])
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        with Client(options.url) as client:
            sets = read_sets(options.data, options.sets, options.limit)
            wanted = choose(sets, options.directions or client.directions())
            rows = [row for item in wanted for row in measure(client, item, options.terms, options.batch)]
    except (ServerError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print(report.table(_HEADER, rows))
    if options.json:
        report.write(
            options.json, {"benchmark": "glossary", "rows": [dict(zip(_HEADER, row, strict=True)) for row in rows]}
        )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality.glossary", description=(__doc__ or "").split("\n\n")[0]
    )
    add_server_options(parser, limit=None)
    parser.add_argument("--terms", type=int, default=50, help="number of terms")
    return parser


if __name__ == "__main__":
    sys.exit(main())

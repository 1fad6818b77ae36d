"""Protected spans in real sentences, through a server: how many come back once, and what they cost in chrF.

python -m benchmarks.quality.protected_spans http://127.0.0.1:8000 --data DATA --sets flores-dev --limit 200

`inserted` adds one to three spans between words; `replaced` puts spans where source and reference have the same number
or name. Both are compared with the translations of the sentences as they are. Spans, and the words that they replace,
are taken out of translation and reference before chrF, so the difference is the cost outside the spans.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.common import report
from benchmarks.common.arguments import add_server_options
from benchmarks.common.development_sets import DevelopmentSet, choose, read_sets
from benchmarks.quality.http_client import Client, ServerError
from model.training.loop.evaluate import score

SPANS = (
    "%s", "%1$s", "%(name)s", "{0}", "{name}", "{{ user.first }}", "${count}", "%{ruby}", ":attribute", "@user",
    '<x id="1"/>', "`code`", "/etc/hosts", "https://example.org/a?b=c", "#news", "$x^2$", "v2.14.0", "2024-05-17", "A4",
    "12.5 MB", "&hellip;", "<keep>Acme Cloud</keep>",
)  # fmt: skip
_NAME = re.compile(r"(?<![\w.,])(?:\d+(?:[.,]\d+)*|[A-ZÀ-Þ]\w+)(?![\w%]|[.,]\d)")
_HEADER = ("direction", "way", "sentences", "spans", "lost", "at the end", "chrF without", "chrF with", "cost")


@dataclass(frozen=True, slots=True)
class Case:
    """A sentence with spans, and the words that are not scored."""

    text: str
    plain: str
    reference: str
    spans: tuple[str, ...]
    words: tuple[str, ...] = ()

    def outside(self, text: str) -> str:
        """Returns a translation without the spans and words."""
        for part in (*self.spans, *self.words):
            text = text.replace(part, " ")
        return " ".join(text.split())

    def lost(self, translation: str) -> int:
        """Returns the number of spans that do not occur once."""
        return sum(translation.count(span) != 1 for span in self.spans)

    def appended(self, translation: str) -> bool:
        """Returns whether a span ends the translation although it does not end the sentence."""
        ends = [text.rstrip(' .!?"').endswith(self.spans) for text in (self.text, translation)]
        return ends == [False, True]


def inserted(source: str, reference: str, chance: random.Random) -> Case:
    """Inserts one to three spans between the words of a sentence, not at its end."""
    words = source.split(" ")
    spans = tuple(chance.sample(SPANS, chance.randint(1, 3)))
    for span in spans:
        words.insert(chance.randrange(len(words)), span)
    return Case(" ".join(words), source, reference, spans)


def replaced(source: str, reference: str, chance: random.Random) -> Case | None:
    """Replaces up to two numbers or names that occur once in source and reference; None without any."""
    shared = [
        found[0]
        for found in _NAME.finditer(source)
        if found.start() > 0 and source.count(found[0]) == reference.count(found[0]) == 1
    ]
    if not shared:
        return None
    words = chance.sample(shared, min(len(shared), chance.randint(1, 2)))
    spans = chance.sample(SPANS, len(words))
    text = source
    for word, span in zip(words, spans, strict=True):
        text = text.replace(word, span, 1)
    return Case(text, source, reference, tuple(spans), tuple(words))


_WAYS = {"inserted": inserted, "replaced": replaced}


def measure(client: Client, item: DevelopmentSet, way: str, batch: int) -> list[object]:
    """Returns one row of the table."""
    chance = random.Random(f"{item.direction} {way}")
    make = _WAYS[way]
    found = [make(source, reference, chance) for source, reference in zip(item.sources, item.references, strict=True)]
    cases = [case for case in found if case is not None and not any(span in case.plain for span in case.spans)]
    answers = [
        list(client.translate_all([getattr(case, field) for case in cases], item.source, item.target, batch))
        for field in ("plain", "text")
    ]
    references = [case.outside(case.reference) for case in cases]
    plain, masked = (
        score([case.outside(text) for case, text in zip(cases, texts, strict=True)], references, item.target).chrf
        for texts in answers
    )
    lost = sum(case.lost(text) for case, text in zip(cases, answers[1], strict=True))
    appended = sum(case.appended(text) for case, text in zip(cases, answers[1], strict=True))
    spans = sum(len(case.spans) for case in cases)
    return [item.direction, way, len(cases), spans, lost, appended, plain, masked, plain - masked]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        with Client(options.url) as client:
            sets = read_sets(options.data, options.sets, options.limit)
            wanted = choose(sets, options.directions or client.directions())
            rows = [measure(client, item, way, options.batch) for item in wanted for way in options.ways]
    except (ServerError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print(report.table(_HEADER, rows))
    if options.json:
        report.write(
            options.json,
            {"benchmark": "protected_spans", "rows": [dict(zip(_HEADER, row, strict=True)) for row in rows]},
        )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality.protected_spans", description=(__doc__ or "").split("\n\n")[0]
    )
    add_server_options(parser, limit=200)
    parser.add_argument("--ways", nargs="+", choices=_WAYS, default=list(_WAYS))
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Flags of sentences: false alarms on human translations, rates on the model's, and recall on damaged ones.

    python -m benchmarks.quality.flags weights --model NAME --data DATA --sets flores-dev tatoeba-dev --limit 200

Damage: the last third of the words is cut; a third in the middle is dropped; three words are repeated; the source is the
translation; the translation is a reference in another language. A damaged sentence counts as found with any of the flags
that are named. Sentences of fewer than six words are not damaged.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from benchmarks.common import report
from benchmarks.common.arguments import add_local_options
from benchmarks.common.development_sets import DevelopmentSet, read_sets
from model.search.options import DecodingOptions, Hypothesis
from server.cli.local_services import local_services, running
from server.config import Settings
from server.services import Services
from server.translation.catalog import Leg
from server.translation.sentence_checks import SentenceChecker
from server.translation.types import Flag, Sentence, TranslationRequest

_WORDS = 6
_EXPECTED: dict[str, frozenset[Flag]] = {
    "cut": frozenset({"truncated", "omission"}),
    "dropped": frozenset({"omission"}),
    "repeated": frozenset({"repetition"}),
    "copied": frozenset({"copied", "wrong_language"}),
    "other language": frozenset({"wrong_language"}),
}
Found = dict[tuple[str, str], list[frozenset[Flag]]]
"""The flags of each sentence by set and kind of translation."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        sets = read_sets(options.data, options.sets, options.limit)
        services = local_services(Settings(weights=options.weights, threads=options.threads))
        found, plain = asyncio.run(measure(services, options.model, sets))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    faults = frozenset().union(*_EXPECTED.values())
    rows = [
        [name, kind, str(len(flags)), _share(flags, faults), _share(flags, _EXPECTED.get(kind, faults)),
         _share(plain[name, kind], _EXPECTED.get(kind, faults))]
        for (name, kind), flags in sorted(found.items())
    ]  # fmt: skip
    header = ("set", "translation", "sentences", "any flag", "found", "found without details")
    print(report.table(header, rows))
    counts = [dict(Counter(flag for each in flags for flag in each)) for _, flags in sorted(found.items())]
    for row, count in zip(rows, counts, strict=True):
        print(row[0], row[1], count)
    if options.json:
        results = [
            dict(zip((*header, "flags"), (*row, count), strict=True)) for row, count in zip(rows, counts, strict=True)
        ]
        report.write(options.json, {"benchmark": "flags", "model": options.model, "rows": results})
    return 0


async def measure(services: Services, model: str, sets: Sequence[DevelopmentSet]) -> tuple[Found, Found]:
    """Returns the flags with the attention of every sentence, and those of a request without details.
    Raises ValueError for an unknown model."""
    found: Found = defaultdict(list)
    plain: Found = defaultdict(list)
    others = {(item.name, item.target): item.references for item in sets}
    async with running(services):
        checker = SentenceChecker(services.engine, lambda: services.translator.detector)
        served = next((each for each in services.translator.catalog.models if each.name == model), None)
        if served is None:
            raise ValueError(f"There is no model {model!r} in the folder.")
        for item in sets:
            leg = Leg(served, item.source, item.target)
            request = TranslationRequest(
                texts=item.sources, source=item.source, target=item.target, options=DecodingOptions(loop_guard=True)
            )
            known = [code for name, code in others if name == item.name and code not in (item.source, item.target)]
            other = others[item.name, known[0]]
            for number, translation in enumerate(await services.translator.translate(request)):
                sentences = translation.legs[0].sentences
                if len(sentences) != 1 or sentences[0].copied:
                    continue
                for kind, variant in _variants(sentences[0], item.references[number], other[number], leg):
                    found[item.name, kind].append((await checker.checked(variant, leg, thorough=True)).flags)
                    plain[item.name, kind].append((await checker.checked(variant, leg)).flags)
    return found, plain


def _variants(sentence: Sentence, reference: str, other: str, leg: Leg) -> Iterator[tuple[str, Sentence]]:
    """Yields the kinds of translations of one sentence."""
    clean = dataclasses.replace(sentence, flags=frozenset())
    yield "model", clean
    yield "reference", _written(clean, reference, leg)
    words = sentence.targets[0].split()
    if len(words) < _WORDS:
        return
    third = max(2, len(words) // 3)
    at = random.Random(len(sentence.ids)).randint(1, len(words) - third - 1)
    yield "cut", _written(clean, " ".join(words[:-third]), leg)
    yield "dropped", _written(clean, " ".join(words[:at] + words[at + third :]), leg)
    yield "repeated", _written(clean, " ".join(words[: at + 3] + words[at : at + 3] + words[at + 3 :]), leg)
    yield "copied", _written(clean, sentence.source, leg)
    yield "other language", _written(clean, other, leg)


def _written(sentence: Sentence, text: str, leg: Leg) -> Sentence:
    """Returns the sentence with another translation."""
    tokens = leg.model.tokenizer.encode_target(text)
    hypothesis = Hypothesis(tuple(tokens), (-0.5,) * (len(tokens) + 1), -0.5, "stop")
    return dataclasses.replace(sentence, targets=(text,), hypotheses=(hypothesis,))


def _share(flags: Sequence[frozenset[Flag]], wanted: frozenset[Flag]) -> str:
    return f"{100 * sum(bool(each & wanted) for each in flags) / max(1, len(flags)):.1f}%"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality.flags", description=(__doc__ or "").split("\n\n")[0]
    )
    add_local_options(parser, limit=200, threads=0)
    parser.add_argument("--model", required=True, help="name of the model")
    return parser


if __name__ == "__main__":
    sys.exit(main())

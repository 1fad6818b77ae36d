"""Flags of numbers and languages: false alarms on human translations, and what they find in those
of a server.

    python -m benchmarks.quality.flags --data DATA --limit 500 --url http://127.0.0.1:8000

Without `--url` only the false alarms are measured.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import httpx

from benchmarks.common import report
from benchmarks.common.command_line import new_parser, run
from benchmarks.common.development_sets import DevelopmentSet, read_sets
from benchmarks.quality.behaviour.__main__ import DIRECTIONS, LANGUAGES
from model.analysis.confidence import GOOD_CHRF
from server.text.exact_tokens import lost_numbers
from server.text.language_id import LanguageDetector
from server.text.languages import is_evidently_in
from server.text.translation_checks import ordinary_words
from server.translation.checks import LEAST_WORDS

SENTENCES = Path(__file__).with_name("behaviour") / "sentences.tsv"
FLAGS = ("digits", "source_language")
RIGHT_CHRF = 50.0
"""Translations above are rarely wrong."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = new_parser("quality.flags", __doc__, "--data")
    parser.add_argument("--limit", type=int, default=500)
    parser.add_argument("--url")
    options = parser.parse_args(arguments)

    def measure() -> None:
        sets = [*behaviour_sets(), *read_sets(options.data, limit=options.limit)]
        names = dict.fromkeys(item.name for item in sets)
        alarms = [[name, *shares([item for item in sets if item.name == name])] for name in names]
        print(report.table(("human translations of", "sentences", *FLAGS), alarms))
        if options.url:
            found = [
                row
                for name in names
                for row in findings(options.url, [each for each in sets if each.name == name])
            ]
            limits = f"of chrF < {GOOD_CHRF:.0f}", f"of chrF >= {RIGHT_CHRF:.0f}"
            print(report.table(("translations of", "flag", "flagged", *limits), found))

    return run(measure)


def behaviour_sets() -> list[DevelopmentSet]:
    """Returns the behaviour set in its six directions."""
    lines = [line.split("\t")[2:] for line in SENTENCES.read_text(encoding="utf-8").splitlines()]
    columns = dict(zip(LANGUAGES, zip(*lines, strict=True), strict=True))
    return [DevelopmentSet("behaviour", s, t, columns[s], columns[t]) for s, t in DIRECTIONS]


def shares(sets: Iterable[DevelopmentSet]) -> list[object]:
    """Returns the number of human translations, and the share of them with each flag."""
    detector, counts, total = LanguageDetector(LANGUAGES), Counter[str](), 0
    for item in sets:
        for source, target in zip(item.sources, item.references, strict=True):
            total += 1
            counts["digits"] += lost_numbers(source, target, item.target)
            words = ordinary_words(source)
            if len(words) >= LEAST_WORDS and not is_evidently_in(source, item.source):
                counts["source_language"] += (
                    detector.other_language(" ".join(words), item.source) is not None
                )
    return [total, *[_percent(counts[flag], total) for flag in FLAGS]]


def findings(url: str, sets: Sequence[DevelopmentSet]) -> list[list[object]]:
    """Returns a row for each flag of the server's translations: the share of all, of the wrong and
    of the good ones."""
    from sacrebleu.metrics.chrf import CHRF

    chrf, rated = CHRF(), list[tuple[float, set[str]]]()
    for item in sets:
        with httpx.Client(timeout=300) as client:
            for start in range(0, len(item.sources), 20):
                part = slice(start, start + 20)
                texts, references = item.sources[part], item.references[part]
                body = {"q": texts, "source": item.source, "target": item.target, "details": True}
                answer = client.post(f"{url}/translate", json=body).raise_for_status().json()
                for text, reference, details in zip(
                    answer["translatedText"], references, answer["details"], strict=True
                ):
                    flags = {
                        flag
                        for leg in details["sentences"]
                        for each in leg
                        for flag in each["flags"]
                    }
                    rated.append((chrf.sentence_score(text, [reference]).score, flags))
    tests: list[Callable[[float], bool]] = [
        lambda _: True,
        lambda score: score < GOOD_CHRF,
        lambda score: score >= RIGHT_CHRF,
    ]
    groups = [[flags for score, flags in rated if test(score)] for test in tests]
    names = sorted({flag for _, flags in rated for flag in flags})
    rows = [
        [name, *[_percent(sum(name in each for each in group), len(group)) for group in groups]]
        for name in names
    ]
    rows.append(["any", *[_percent(sum(map(bool, group)), len(group)) for group in groups]])
    return [[sets[0].name, *row] for row in rows]


def _percent(count: int, total: int) -> str:
    return f"{count / max(1, total):.1%}"


if __name__ == "__main__":
    sys.exit(main())

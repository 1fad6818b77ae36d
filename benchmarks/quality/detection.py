"""Detection of languages: what of short texts is right, copied, or claimed for a served language.

    python -m benchmarks.quality.detection TEXTS --served en,de,fr,es
    python -m benchmarks.quality.detection TEXTS --train FILE

TEXTS has a language and a text in each line, divided by a tab. `--train` writes them as fastText
reads them.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.common import report
from benchmarks.common.command_line import new_parser, run
from server.text.language_id import LanguageDetector, words_of
from server.text.languages import primary_subtag

WORDS = ((1, "1"), (2, "2"), (3, "3"), (8, "4 to 8"), (10**6, "more"))
"""Most words of a text in each row of the table."""
BINS = (1, 40, 60, 80, 90, 98, 101)
"""Limits of the confidences in percent of each row of the second table."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = new_parser("quality.detection", __doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--served", default="en,de,fr,es")
    parser.add_argument("--target", default="", help="language that the requests translate into")
    parser.add_argument("--train", type=Path)
    options = parser.parse_args(arguments)
    return run(lambda: _train(options) if options.train else _measure(options))


def _train(options: argparse.Namespace) -> None:
    lines = [
        f"__label__{language} {words}"
        for language, text in read(options.texts)
        if (words := words_of(text))
    ]
    random.Random(0).shuffle(lines)  # fastText learns them in their order
    options.train.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _measure(options: argparse.Namespace) -> None:
    texts = list(read(options.texts))
    LanguageDetector(["en"]).detect("the house")  # loads the classifier
    start = time.process_time()
    rows, confidences = measure(texts, options.served.split(","), options.target)
    microseconds = 1e6 * (time.process_time() - start) / max(1, len(texts))
    header = "words|texts of served languages|right|copied|of others|claimed|named right".split("|")
    print(report.table(header, rows))
    print(report.table(("confidence", "answers", "right"), confidences))
    print(f"{microseconds:.0f} microseconds of processor time a text")


def read(path: Path) -> Iterator[tuple[str, str]]:
    """Returns the languages and texts of a file. Raises ValueError for a line without a tab."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        language, tab, text = line.partition("\t")
        if not tab:
            raise ValueError(f"{path}, line {number}: a language, a tab and a text are needed.")
        yield language, text


def measure(
    texts: Sequence[tuple[str, str]], served: Sequence[str], target: str
) -> tuple[list[list[object]], list[list[object]]]:
    """Returns the rows by number of words, and by confidence. "copied" texts of served languages
    are found to be in none; "claimed" ones are in no served language and are found to be in one."""
    detector, counts = LanguageDetector(served), Counter[tuple[str, str]]()
    for language, text in texts:
        best = detector.detect(text, target)[0]
        row = next(name for most, name in WORDS if len(text.split()) <= most)
        is_right = primary_subtag(best.language) == primary_subtag(language)
        kind = "served" if language in served else "other"
        counts[row, kind] += 1
        counts[f"{row} {kind}", f"right {is_right}"] += 1
        counts[f"{row} {kind}", f"served {best.language in served}"] += 1
        place = next(
            f"{low} to {high - 1}" for low, high in pairwise((0, *BINS)) if best.confidence < high
        )
        counts.update([(place, "answers"), (place, f"right {is_right}")])
    rows: list[list[object]] = []
    for _, row in WORDS:
        total, others = counts[row, "served"], counts[row, "other"]
        right, copied = [counts[f"{row} served", name] for name in ("right True", "served False")]
        named, claimed = [counts[f"{row} other", name] for name in ("right True", "served True")]
        shares = [_percent(right, total), _percent(copied, total)]
        rows.append(
            [row, total, *shares, others, _percent(claimed, others), _percent(named, others)]
        )
    places = [f"{low} to {high - 1}" for low, high in pairwise(BINS)]
    sure = [[place, counts[place, "answers"]] for place in places]
    return rows, [
        [*row, _percent(counts[str(row[0]), "right True"], int(str(row[1])))] for row in sure
    ]


def _percent(count: int, total: int) -> str:
    return f"{count / total:.1%}" if total else ""


if __name__ == "__main__":
    sys.exit(main())

"""chrF by source length in tokens. Sources longer than a set's sentences are made of neighbouring sentences.

    python -m benchmarks.quality.source_lengths --model weights/NAME --data DATA --sets flores-dev

The server divides text into sentences, so that it translates long sources only where a text has no ends of sentences.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.common import report
from benchmarks.common.development_sets import DevelopmentSet, choose, read_sets
from benchmarks.common.model_loader import OpenModel, open_model
from benchmarks.quality.__main__ import search_options
from model.training.loop.evaluate import score, translate_texts

EDGES = (10, 20, 40, 80, 110, 160, 240, 400)
"""Longest source of each row, in tokens. The default model was trained on sources of up to 110 tokens."""
_JOINED = (1, 2, 3, 4, 6, 8)
"""Numbers of neighbouring sentences that are joined to one source."""
Pair = tuple[str, str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        sets = read_sets(options.data, options.sets, options.limit)
        opened = open_model(
            options.model, engine="native", precision=options.precision, slots=options.slots, threads=options.threads
        )
        rows = []
        for item in tqdm(choose(sets, options.directions or opened.directions), unit=" directions", disable=None):
            rows += measure(opened, item, options.search, options.pairs)
    except (ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    names = list(dict.fromkeys(row["tokens"] for row in rows))
    found = {(row["direction"], row["tokens"]): f"{row['chrF']:.1f}" for row in rows}
    directions = list(dict.fromkeys(row["direction"] for row in rows))
    print(report.table(["direction", *names], [[d, *(found.get((d, n), "") for n in names)] for d in directions]))
    if options.json:
        report.write(options.json, {"benchmark": "source_lengths", "rows": rows})
    return 0


def measure(opened: OpenModel, item: DevelopmentSet, search: str, most: int) -> list[dict[str, Any]]:
    """Returns one row with chrF and BLEU for each range of lengths. A range has at most `most` pairs."""
    rows: list[dict[str, Any]] = []
    pairs = list(joined(item, _JOINED))
    decoding = search_options(search)
    lengths = [len(opened.tokenizer.encode(source, item.target).ids) for source, _ in pairs]
    for name, chosen in by_length(pairs, lengths).items():
        texts, references = zip(*chosen[:most], strict=True)
        found = translate_texts(
            opened.backend, opened.tokenizer, opened.config, texts, item.target, decoding,
            generation=opened.generation,
        )  # fmt: skip
        scores = score(found.texts, references, item.target)
        rows.append({
            "set": item.name, "direction": item.direction, "tokens": name, "pairs": scores.sentences,
            "chrF": scores.chrf, "BLEU": scores.bleu, "unfinished": found.unfinished,
        })  # fmt: skip
    return rows


def by_length(pairs: Sequence[Pair], lengths: Sequence[int]) -> dict[str, list[Pair]]:
    """Returns the pairs by the range of their source's length, such as "11 to 20", shortest first.

    Longer pairs than the last edge are left out, and so are ranges without a pair.
    """
    ranges = [f"{low + 1} to {high}" for low, high in pairwise((0, *EDGES))]
    found: dict[str, list[Pair]] = {name: [] for name in ranges}
    for pair, length in zip(pairs, lengths, strict=True):
        if (at := bisect_left(EDGES, length)) < len(ranges):
            found[ranges[at]].append(pair)
    return {name: chosen for name, chosen in found.items() if chosen}


def joined(item: DevelopmentSet, numbers: Sequence[int]) -> Iterator[Pair]:
    """Yields the pairs of `item`, joined in groups of each of `numbers` neighbours."""
    for number in numbers:
        for at in range(0, len(item.sources), number):
            part = slice(at, at + number)
            yield " ".join(item.sources[part]), " ".join(item.references[part])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality.source_lengths", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--model", type=Path, required=True, help="a model folder")
    parser.add_argument("--data", type=Path, required=True, help="folder with SET.en-XX.tsv files")
    parser.add_argument("--sets", nargs="+", default=["flores-dev"], help="names of sets (default: flores-dev)")
    parser.add_argument("--directions", nargs="+", default=[], help="en-de de-en ... (default: all of the model)")
    parser.add_argument("--limit", type=int, help="the first N pairs of each set")
    parser.add_argument("--pairs", type=int, default=100, help="largest number of pairs in a range (default: 100)")
    parser.add_argument("--precision", choices=["float32", "int8"], default="int8", help="default: int8")
    parser.add_argument("--search", default="greedy", help="greedy, or beamN (default: greedy)")
    parser.add_argument("--slots", type=int, default=32, help="sentences decoded together (default: 32)")
    parser.add_argument("--threads", type=int, default=1, help="number of CPU threads (default: 1)")
    parser.add_argument("--json", type=Path, help="write the rows there")
    return parser


if __name__ == "__main__":
    sys.exit(main())

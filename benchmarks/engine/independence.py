"""Checks that a translation does not depend on the batch: the same sentences alone, in batches and shuffled give the
same ids.

python -m benchmarks.engine.independence --model weights/NAME --data DATA --direction en-de --precision int8 float32
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from tqdm import tqdm

from benchmarks.common import report
from benchmarks.common.development_sets import choose, read_sets
from benchmarks.common.model_loader import OpenModel, open_model
from model.backends.cpu.isa import Isa
from model.search.driver import translate
from model.search.options import DecodingOptions

Ids = tuple[int, ...]
HEADER = ("engine", "precision", "search", "sentences", "differ in batches", "differ shuffled")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. The exit status is 1 if any target differs."""
    options = _parser().parse_args(arguments)
    rows = []
    try:
        sets = choose(read_sets(options.data, options.sets), [options.direction])
        texts = [text for item in sets for text in item.sources][: options.sentences]
        for precision in options.precision:
            opened = open_model(
                options.model, engine=options.engine, precision=precision, device=options.device,
                slots=options.batch * max(options.beams), threads=options.threads, isa=options.isa,
            )  # fmt: skip
            target = options.direction.split("-", 1)[1]
            limit = opened.config.max_length
            sources = [
                ids for ids in (opened.tokenizer.encode(text, target).ids for text in texts) if len(ids) <= limit
            ]
            for beam in options.beams:
                batched, shuffled = compare(opened, sources, beam)
                search = "greedy" if beam == 1 else f"beam{beam}"
                rows.append((options.engine, precision, search, len(sources), batched, shuffled))
    except (ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    print(report.table(HEADER, rows))
    if options.json:
        results = [dict(zip(HEADER, row, strict=True)) for row in rows]
        report.write(
            options.json, {"benchmark": "independence", "batch": options.batch, "isa": options.isa, "rows": results}
        )
    return int(any(row[4] or row[5] for row in rows))


def compare(opened: OpenModel, sources: Sequence[Ids], beam: int, longest: int | None = None) -> tuple[int, int]:
    """Counts the targets (of at most `longest` tokens) that differ from those of single sentences: in batches in the
    given order, and in batches in a shuffled order."""
    options = DecodingOptions(beam_size=beam, max_length=longest)
    alone = [
        _targets(opened, [source], options)[0] for source in tqdm(sources, desc=f"alone, beam {beam}", disable=None)
    ]
    batched = _targets(opened, sources, options)
    order = list(range(len(sources)))
    random.Random(1).shuffle(order)
    shuffled = dict(zip(order, _targets(opened, [sources[i] for i in order], options), strict=True))
    return (
        sum(a != b for a, b in zip(alone, batched, strict=True)),
        sum(target != shuffled[i] for i, target in enumerate(alone)),
    )


def _targets(opened: OpenModel, sources: Sequence[Ids], options: DecodingOptions) -> list[Ids]:
    config = opened.config
    found = translate(
        opened.backend, sources, options,
        start=config.decoder_start_id, end=config.eos_id, max_length=config.max_length,
    )  # fmt: skip
    return [hypotheses[0].tokens for hypotheses in found]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engine.independence", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--model", type=Path, required=True, help="a model folder")
    parser.add_argument("--data", type=Path, required=True, help="folder with SET.en-XX.tsv files")
    parser.add_argument("--sets", nargs="+", default=["newstest2013"])
    parser.add_argument("--direction", default="en-de")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--beams", type=int, nargs="+", default=[1])
    parser.add_argument("--engine", choices=["native", "torch"], default="native")
    parser.add_argument("--precision", nargs="+", default=["int8", "float32"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", choices=get_args(Isa), default="auto", help="instruction set of the CPU backend")
    parser.add_argument("--json", type=Path, help="write the results here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
